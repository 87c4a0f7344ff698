/* What the egress proxy reads: requests from the sandbox and responses of name servers. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/egress/messages.h"
#include "tests/unit/unit.h"

static struct request request;
static const char *why;

/* 0: complete; 1: more is needed; otherwise the status. */
static unsigned check(const char *text)
{
    unsigned status = 0;
    enum request_result result = request_read(text, strlen(text), &request, &status, &why);
    return result == REQUEST_BAD ? status : result == REQUEST_MORE;
}

static void assert_sent(const char *text, const char *expected)
{
    char out[1024] = "";
    assert_int_equal(check(text), 0);
    size_t size = request_write_head(&request, text, /* login= */ NULL, out, sizeof out);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(out, expected, size);
    assert_int_equal(request_write_head(&request, text, /* login= */ NULL, out, size), 0);
}

static void a_tunnel_names_host_and_port(void **)
{
    assert_int_equal(
        check("CONNECT Index.example:443 HTTP/1.1\r\nHost: index.example:443\r\n\r\nTLS"), 0);
    assert_true(request.tunnel);
    assert_string_equal(request.target.host, "index.example");
    assert_int_equal(request.target.port, 443);
    assert_int_equal(request.head_bytes, 63);
    assert_int_equal(check("CONNECT [::1]:80 HTTP/1.0\r\n\r\n"), 0);
    assert_true(request.target.literal);
    static const char *const bad[] = {
        "CONNECT index.example HTTP/1.1\r\n\r\n",
        "CONNECT index.example:443/x HTTP/1.1\r\n\r\n",
        "CONNECT http://index.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT me:pw@index.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT evil.example\\@index.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT index.example%00.evil:443 HTTP/1.1\r\n\r\n",
        "CONNECT 0x7f000001:80 HTTP/1.1\r\n\r\n",
        "CONNECT 017700000001:80 HTTP/1.1\r\n\r\n",
        "CONNECT index.example:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
        "connect index.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT  index.example:443 HTTP/1.1\r\n\r\n",
        "CONNECT index.example:443 HTTP/1.1 \r\n\r\n",
        "\r\nCONNECT index.example:443 HTTP/1.1\r\n\r\n",
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (check(bad[i]) != 400) {
            fail_msg("taken: %s", bad[i]);
        }
    }
}

static void a_request_is_forwarded_without_proxy_headers(void **)
{
    assert_sent(
        "GET http://A.example/x?y HTTP/1.1\r\nHost: other.example\r\nAccept: */*\r\n"
        "Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n"
        "Connection: keep-alive, X-Hop\r\nx-hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        "X-Tail:  a b \r\n\r\n",
        "GET /x?y HTTP/1.1\r\nHost: A.example\r\nAccept: */*\r\nX-Tail: a b\r\n"
        "Connection: close\r\n\r\n");
    assert_int_equal(request.target.port, 80);
    assert_sent(
        "POST HTTP://[::1]:8080?q HTTP/1.0\r\nContent-Length: 12\r\n"
        "Connection: content-length\r\n\r\n",
        "POST /?q HTTP/1.0\r\nHost: [::1]:8080\r\nContent-Length: 12\r\n"
        "Connection: close\r\n\r\n");
    assert_int_equal(request.body_bytes, 12);
    assert_false(request.expects);
    assert_sent(
        "PUT http://a.example/ HTTP/1.1\r\nContent-Length: 2\r\nexpect: 100-continue\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    assert_true(request.expects);
}

static void a_request_to_an_upstream_proxy_keeps_its_url_and_has_one_login(void **)
{
    static const char text[] =
        "GET HTTP://A.example?y HTTP/1.1\r\nHost: other.example\r\nMax-Forwards: 0\r\n"
        "Proxy-Authorization: Basic eA==\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n";
    static const char plain[] =
        "GET http://A.example/?y HTTP/1.1\r\nHost: A.example\r\nConnection: close\r\n\r\n";
    static const char login[] =
        "GET http://A.example/?y HTTP/1.1\r\nHost: A.example\r\n"
        "Proxy-Authorization: Basic b3du\r\nConnection: close\r\n\r\n";
    struct request sent;
    unsigned status = 0;
    const char *wrong = NULL;
    char out[512];
    assert_int_equal(request_read(text, sizeof text - 1, &sent, &status, &wrong), REQUEST_WHOLE);
    assert_false(sent.traces);
    size_t size = request_write_head(&sent, text, "", out, sizeof out);
    assert_int_equal(size, sizeof plain - 1);
    assert_memory_equal(out, plain, size);
    size = request_write_head(&sent, text, "Basic b3du", out, sizeof out);
    assert_int_equal(size, sizeof login - 1);
    assert_memory_equal(out, login, size);
    assert_int_equal(request_write_head(&sent, text, "Basic b3du", out, sizeof login - 1), 0);
    size = request_write_connect(&sent.target, "Basic b3du", out, sizeof out);
    out[size] = '\0';
    assert_string_equal(out,
                        "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n"
                        "Proxy-Authorization: Basic b3du\r\n\r\n");
}

static void ambiguous_requests_are_refused(void **)
{
    static const struct {
        const char *text;
        unsigned status;
    } bad[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET https://a/ HTTP/1.1\r\n\r\n", 400},
        {"GET ftp://a/ HTTP/1.1\r\n\r\n", 400},
        {"GET http:///x HTTP/1.1\r\n\r\n", 400},
        {"GET http://a:b@c/ HTTP/1.1\r\n\r\n", 400},
        {"GET http://a/#b HTTP/1.1\r\n\r\n", 400},
        {"GET http://a#@b/ HTTP/1.1\r\n\r\n", 400},
        {"GET http://a/ b HTTP/1.1\r\n\r\n", 400},
        {"GET http://a/\nX: y HTTP/1.1\r\n\r\n", 400},
        {"GET http://a/ HTTP/2.0\r\n\r\n", 505},
        {"GET http://a/ HTTP/1.2\r\n\r\n", 505},
        {"GET http://a/ HTTP/1.1\n\n\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nX: a\nHost: b\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nX: a\rb\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\n X: a\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nX : a\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nX\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\n: a\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nContent-Length:\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", 400},
        {"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
        {"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\n",
         411},
        {"G\x01T http://a/ HTTP/1.1\r\n\r\n", 400},
        {" http://a/ HTTP/1.1\r\n\r\n", 400},
        /* squid would make a tunnel of it */
        {"connect http://a/ HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 400},
        {"Connect http://a/ HTTP/1.1\r\n\r\n", 400},
        {"CONNEcT a:443 HTTP/1.1\r\n\r\n", 400},
        {"get http://a/ HTTP/1.1\r\n\r\n", 400},
        {"CONNECT! http://a/ HTTP/1.1\r\n\r\n", 400},
        {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA http://a/ HTTP/1.1\r\n\r\n", 400},
        {"GET http://a/ HTTP/1.1\r\nX: \x7f\r\n\r\n", 400},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (check(bad[i].text) != bad[i].status) {
            fail_msg("not %u but %u: %s", bad[i].status, check(bad[i].text), bad[i].text);
        }
        assert_non_null(why);
    }
    assert_int_equal(check("VERSION-CONTROL http://a/ HTTP/1.1\r\n\r\n"), 0);
    assert_int_equal(check("GET http://a/ HTTP/1.1\r\n"), 1);
    assert_int_equal(check(""), 1);
}

static void a_head_has_its_limits(void **)
{
    char *text = calloc(1, REQUEST_HEAD_MOST + 1);
    assert_non_null(text);
    strcpy(text, "GET http://a/ HTTP/1.1\r\n"); /* its end is missing */
    memset(text + strlen(text), 'x', REQUEST_HEAD_MOST - 1 - strlen(text));
    assert_int_equal(check(text), 1);
    text[REQUEST_HEAD_MOST - 1] = 'x';
    assert_int_equal(check(text), 431);
    memset(text, 0, REQUEST_HEAD_MOST);
    strcpy(text, "GET http://a/ HTTP/1.1\r\n");
    for (unsigned i = 0; i < REQUEST_HEADERS_MOST; i++) {
        strcat(text, "A: b\r\n");
    }
    size_t size = strlen(text);
    strcpy(text + size, "\r\n");
    assert_int_equal(check(text), 0);
    strcpy(text + size, "A: b\r\n\r\n");
    assert_int_equal(check(text), 431);
    free(text);
}

/* --- names --- */

enum { ID = 0x1234 };

struct message {
    uint8_t bytes[DNS_MESSAGE_MOST];
    size_t size;
};

static void put(struct message *message, const void *bytes, size_t size)
{
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

/* A response to a query for A of "a.example". */
static struct message answer(unsigned flags, unsigned records)
{
    struct message message = {.size = dns_write_query("a.example", DNS_A, ID, message.bytes)};
    message.bytes[2] = (uint8_t)(flags >> 8);
    message.bytes[3] = (uint8_t)flags;
    message.bytes[7] = (uint8_t)records;
    return message;
}

#define PUT(MESSAGE, BYTES) put(MESSAGE, BYTES, sizeof(BYTES) - 1)

static enum dns_result read_answer(const struct message *message, struct dns_answer *ret_answer)
{
    return dns_read_answer(message->bytes, message->size, "a.example", DNS_A, ID, ret_answer);
}

static void addresses_are_those_of_the_name_and_its_aliases(void **)
{
    static struct dns_answer found;
    struct message message = answer(0x8180, 4);
    PUT(&message, "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1B\xc0\x0e");            /* → b.example */
    PUT(&message, "\1b\7EXAMPLE\0\0\1\0\1\0\0\0\x1e\0\4\x5d\xb8\xd7\x0e"); /* its A record */
    PUT(&message, "\1c\xc0\x0e\0\1\0\1\0\0\0\1\0\4\x0a\0\0\1");            /* an unrelated name's */
    PUT(&message, "\1b\xc0\x0e\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\2");
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.ttl_s, 0x1e);
    const uint8_t first[] = {93, 184, 215, 14};
    struct egress_address expected = address_from_v4(first);
    assert_true(address_equal(&found.addresses[0], &expected));
    message.bytes[7] = 9; /* more than the message has */
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    assert_int_equal(found.count, 2);
}

static void responses_to_other_queries_are_rejected(void **)
{
    static struct dns_answer found;
    struct message message = answer(0x8180, 1);
    PUT(&message, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x5d\xb8\xd7\x0e");
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    for (size_t at = 0; at < 27; at++) { /* head and query */
        struct message other = message;
        bool counts = at >= 6 && at < 12; /* counts of records may have any value */
        bool flags = at == 2 || at == 3;
        other.bytes[at] ^= 1;
        if (!counts && !flags) {
            assert_int_equal(read_answer(&other, &found), DNS_STRANGE);
        }
    }
    for (message.size = 0; message.size < 27; message.size++) {
        assert_int_equal(read_answer(&message, &found), DNS_STRANGE);
    }
    struct message question = answer(0x0100, 0);
    assert_int_equal(read_answer(&question, &found), DNS_STRANGE);
}

static void error_codes_of_servers_are_reported(void **)
{
    static struct dns_answer found;
    struct message message = answer(0x8183, 0);
    assert_int_equal(read_answer(&message, &found), DNS_NO_NAME);
    message = answer(0x8182, 0);
    assert_int_equal(read_answer(&message, &found), DNS_FAILED);
    message = answer(0x8380, 0);
    assert_int_equal(read_answer(&message, &found), DNS_TRUNCATED);
    message = answer(0x8180, 0);
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    assert_int_equal(found.count, 0);
    /* a name that points to itself, and a name that is its own alias */
    message = answer(0x8180, 1);
    PUT(&message, "\xc0\x1b\0\1\0\1\0\0\0\x3c\0\4\1\1\1\1");
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    assert_int_equal(found.count, 0);
    message = answer(0x8180, 1);
    PUT(&message, "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\2\xc0\x0c");
    assert_int_equal(read_answer(&message, &found), DNS_ANSWERED);
    assert_int_equal(found.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tunnel_names_host_and_port),
        cmocka_unit_test(a_request_is_forwarded_without_proxy_headers),
        cmocka_unit_test(a_request_to_an_upstream_proxy_keeps_its_url_and_has_one_login),
        cmocka_unit_test(ambiguous_requests_are_refused),
        cmocka_unit_test(a_head_has_its_limits),
        cmocka_unit_test(addresses_are_those_of_the_name_and_its_aliases),
        cmocka_unit_test(responses_to_other_queries_are_rejected),
        cmocka_unit_test(error_codes_of_servers_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
