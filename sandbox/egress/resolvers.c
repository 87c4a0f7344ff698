#include "sandbox/egress/resolvers.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/egress/address.h"

/* Of a hosts file; one that blocks advertisements is longer, and only its start counts. */
enum { FILE_BYTES = 262144 };

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

/* Returns false at the end of the line, or of what is before its comment, and for a word that does
 * not fit. */
static bool next_word(const char **at, char word[EGRESS_HOST_BYTES])
{
    *at += strspn(*at, " \t\r");
    size_t size = strcspn(*at, " \t\r\n#;");
    if (size == 0 || size >= EGRESS_HOST_BYTES) {
        return false;
    }
    memcpy(word, *at, size);
    word[size] = '\0';
    *at += size;
    return true;
}

void resolvers_of_text(const char *text, struct egress_resolvers *ret_resolvers)
{
    struct egress_resolvers found = {};
    char word[EGRESS_HOST_BYTES];
    for (; *text && found.count < EGRESS_RESOLVERS; text = next_line(text)) {
        const char *at = text;
        if (next_word(&at, word) && strcmp(word, "nameserver") == 0 && next_word(&at, word)) {
            found.count += address_read(word, &found.servers[found.count]);
        }
    }
    if (found.count == 0) {
        found.servers[found.count++] = address_from_v4((const uint8_t[]){127, 0, 0, 1});
    }
    *ret_resolvers = found;
}

void known_of_text(const char *text, const char *name, struct egress_known *ret_known)
{
    struct egress_known found = {};
    char word[EGRESS_HOST_BYTES];
    for (; *text && found.count < EGRESS_KNOWN; text = next_line(text)) {
        const char *at = text;
        struct egress_address address;
        if (!next_word(&at, word) || !address_read(word, &address)) {
            continue;
        }
        while (next_word(&at, word)) {
            if (strcasecmp(word, name) == 0) {
                found.addresses[found.count++] = address;
                break;
            }
        }
    }
    *ret_known = found;
}

static const char *read_file(const char *path)
{
    static char text[FILE_BYTES + 1];
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : fd_pread_all(fd, text, FILE_BYTES, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

void resolvers_read(struct egress_resolvers *ret_resolvers)
{
    resolvers_of_text(read_file("/etc/resolv.conf"), ret_resolvers);
}

void known_read(const char *name, struct egress_known *ret_known)
{
    known_of_text(read_file("/etc/hosts"), name, ret_known);
    if (ret_known->count == 0 && strcmp(name, "localhost") == 0) { /* RFC 6761 6.3 */
        (void)address_read("127.0.0.1", &ret_known->addresses[0]);
        (void)address_read("::1", &ret_known->addresses[1]);
        ret_known->count = 2;
    }
}
