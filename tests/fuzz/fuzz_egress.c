/* The input of the egress proxy. The first byte chooses: a request of the sandbox, which if
 * accepted is rewritten so that it has one interpretation only; a name server's answer; or an
 * upstream proxy's reply. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/egress/messages.h"
#include "sandbox/egress/upstream.h"
#include "tests/fuzz/fuzz.h"

enum { ID = 0x3131 };

static unsigned count(const char *bytes, size_t size, const char *what)
{
    unsigned found = 0;
    size_t length = strlen(what);
    for (const char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), what, length));) {
        found++;
        at += length;
    }
    return found;
}

/* One head with one Host, one Connection and at most one length. A field may get a blank. */
static void check_head(const struct request *request, const char *bytes)
{
    static char out[2 * REQUEST_HEAD_MOST];
    size_t size = request_write_head(request, bytes, /* login= */ NULL, out, sizeof out);
    if (size == 0 || size > request->head_bytes + 64 + REQUEST_HEADERS_MOST ||
        memchr(out, '\0', size) || memcmp(out + size - 4, "\r\n\r\n", 4) != 0 ||
        count(out, size, "\r\n\r\n") != 1 || count(out, size, "\r\nHost: ") != 1 ||
        count(out, size, "\r\nConnection: ") != 1 ||
        count(out, size, "\r") != count(out, size, "\r\n") ||
        count(out, size, "\n") != count(out, size, "\r\n")) {
        abort();
    }
}

static void fuzz_request(const char *bytes, size_t size)
{
    struct request request;
    unsigned status = 0;
    const char *why = NULL;
    enum request_result result = request_read(bytes, size, &request, &status, &why);
    if (result == REQUEST_BAD && (status < 400 || status > 505 || !why)) {
        abort();
    }
    if (result != REQUEST_WHOLE) {
        return;
    }
    struct target again;
    char text[EGRESS_HOST_BYTES + 10];
    const struct target *target = &request.target;
    if (request.head_bytes > size || target->port == 0 || !target->host[0] ||
        (request.tunnel && request.body_bytes) || strlen(target->host) >= sizeof target->host) {
        abort();
    }
    /* A host in canonical form parses to itself. */
    (void)strcpy(text, strchr(target->host, ':') ? "[" : "");
    (void)strcat(strcat(text, target->host), strchr(target->host, ':') ? "]" : "");
    if (!target_read(text, strlen(text), &again) || strcmp(again.host, target->host) != 0 ||
        again.literal != target->literal) {
        abort();
    }
    if (!request.tunnel) {
        check_head(&request, bytes);
    }
}

static void fuzz_answer(const uint8_t *bytes, size_t size)
{
    static struct dns_answer answer;
    enum dns_result result = dns_read_answer(bytes, size, "a.example", DNS_A, ID, &answer);
    if (result != DNS_ANSWERED) {
        return;
    }
    if (answer.count > DNS_ADDRESSES) {
        abort();
    }
    for (size_t i = 0; i < answer.count; i++) {
        if (!address_is_v4(&answer.addresses[i])) {
            abort();
        }
    }
}

/* Its reason is printable, and the sentence that quotes it is one line. */
static void fuzz_reply(const char *bytes, size_t size)
{
    struct upstream_reply reply = {};
    struct egress_event event;
    const struct egress_upstream upstream = {.host = "p.example", .port = 1, .source = "--proxy"};
    const struct target target = {.host = "a.example", .port = 443};
    if (reply_read(bytes, size, &reply) != REPLY_WHOLE) {
        return;
    }
    upstream_explain(&upstream, UPSTREAM_REFUSES, &reply, &target, &event);
    if (reply.head_bytes > size || reply.status < 200 || reply.status > 999 ||
        strlen(event.text) >= sizeof event.text) {
        abort();
    }
    for (const char *at = event.text; *at; at++) {
        if (*at < ' ' || *at > '~') {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 && size <= REQUEST_HEAD_MOST) {
        /* A copy of its own, so that the sanitizers detect a read beyond the end. */
        char *bytes = malloc(size - 1);
        if (!bytes) {
            abort();
        }
        memcpy(bytes, data + 1, size - 1);
        if (data[0] == 'r') {
            fuzz_reply(bytes, size - 1);
        } else if (data[0] & 1) {
            fuzz_answer((const uint8_t *)bytes, size - 1);
        } else {
            fuzz_request(bytes, size - 1);
        }
        free(bytes);
    }
    return 0;
}
