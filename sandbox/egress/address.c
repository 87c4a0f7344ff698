#include "sandbox/egress/address.h"

#include <arpa/inet.h>
#include <string.h>

enum { LABEL_MOST = 63, PORT_DIGITS = 5 };

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

struct egress_address address_from_v4(const uint8_t bytes[4])
{
    struct egress_address address;
    memcpy(address.bytes, mapped, sizeof mapped);
    memcpy(address.bytes + sizeof mapped, bytes, 4);
    return address;
}

bool address_is_v4(const struct egress_address *address)
{
    return memcmp(address->bytes, mapped, sizeof mapped) == 0;
}

bool address_equal(const struct egress_address *a, const struct egress_address *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool address_read(const char *text, struct egress_address *ret_address)
{
    uint8_t v4[4];
    if (inet_pton(AF_INET, text, v4) == 1) {
        *ret_address = address_from_v4(v4);
        return true;
    }
    return inet_pton(AF_INET6, text, ret_address->bytes) == 1;
}

const char *address_print(const struct egress_address *address, char text[ADDRESS_TEXT_BYTES])
{
    bool v4 = address_is_v4(address);
    const char *printed = inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0), text,
                                    ADDRESS_TEXT_BYTES);
    return printed ? printed : "?";
}

struct range {
    uint8_t bytes[16];
    unsigned bits;
    const char *what;
};

static bool in_range(const uint8_t *bytes, const struct range *range)
{
    unsigned whole = range->bits / 8;
    unsigned rest = range->bits % 8;
    uint8_t mask = (uint8_t)(0xff00U >> rest);
    return memcmp(bytes, range->bytes, whole) == 0 &&
           (rest == 0 || ((bytes[whole] ^ range->bytes[whole]) & mask) == 0);
}

static const char *find_range(const uint8_t *bytes, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (in_range(bytes, &ranges[i])) {
            return ranges[i].what;
        }
    }
    return NULL;
}

static const char a_private[] = "a private address";
static const char a_loopback[] = "a loopback address";
static const char a_link_local[] = "a link-local address";
static const char a_metadata[] = "the address of a metadata service";
static const char a_multicast[] = "a multicast address";
static const char a_reserved[] = "a reserved address";

/* IANA's registry of special-purpose IPv4 addresses, and addresses of cloud metadata services. */
static const struct range ranges_v4[] = {
    {{169, 254, 169, 254}, 32, a_metadata},
    {{100, 100, 100, 200}, 32, a_metadata}, /* Alibaba */
    {{168, 63, 129, 16}, 32, a_metadata}, /* Azure: public by its number, link-local by its route */
    {{0}, 8, a_reserved},                 /* "this host": Linux connects to itself */
    {{10}, 8, a_private},
    {{100, 64}, 10, "an address of a provider's internal network"},
    {{127}, 8, a_loopback},
    {{169, 254}, 16, a_link_local},
    {{172, 16}, 12, a_private},
    {{192, 0, 0}, 24, a_reserved},
    {{192, 0, 2}, 24, a_reserved},
    {{192, 88, 99}, 24, a_reserved},
    {{192, 168}, 16, a_private},
    {{198, 18}, 15, a_reserved},
    {{198, 51, 100}, 24, a_reserved},
    {{203, 0, 113}, 24, a_reserved},
    {{224}, 4, a_multicast},
    {{240}, 4, a_reserved},
};

static const struct range ranges_v6[] = {
    {{0xfd, 0x00, 0x0e, 0xc2}, 32, a_metadata}, /* Amazon: fd00:ec2::254 */
    {{[15] = 1}, 128, a_loopback},
    {{0xfe, 0x80}, 10, a_link_local},
    {{0xfc}, 7, a_private},
    {{0xfe, 0xc0}, 10, a_private}, /* site-local, RFC 3879 */
    {{0xff}, 8, a_multicast},
    {{0x20, 0x01}, 23, a_reserved}, /* protocols, among them Teredo, which carries IPv4 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, a_reserved},
    {{0x20, 0x02}, 16, a_reserved}, /* 6to4, which carries IPv4 */
    {{0x3f, 0xff}, 20, a_reserved},
};
static const struct range global_v6 = {{0x20}, 3, NULL};
static const struct range nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96, NULL}; /* RFC 6052 */

const char *address_error(const struct egress_address *address)
{
    const uint8_t *bytes = address->bytes;
    if (address_is_v4(address) || in_range(bytes, &nat64)) {
        return find_range(bytes + 12, ranges_v4, sizeof ranges_v4 / sizeof *ranges_v4);
    }
    const char *what = find_range(bytes, ranges_v6, sizeof ranges_v6 / sizeof *ranges_v6);
    return what || in_range(bytes, &global_v6) ? what : a_reserved;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The character in lower case, or NUL if no name may contain it. */
static char name_char(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    bool ours = (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_' || c == '.';
    if (!ours) {
        return '\0';
    }
    return c;
}

/* Checks the labels' lengths. A last label that begins with a digit would be a number to some
 * programs ("127.1", "0x7f000001"); RFC 3696 knows no such top-level domain. */
static bool labels_are_valid(const char *host)
{
    const char *label = host;
    for (;;) {
        size_t size = strcspn(label, ".");
        if (size == 0 || size > LABEL_MOST || label[0] == '-' || label[size - 1] == '-') {
            return false;
        }
        if (!label[size]) {
            return !is_digit(label[0]);
        }
        label += size + 1;
    }
}

/* Reads a host from a request or flag, without brackets, into its canonical form. Returns false for
 * anything but an address or a name by RFC 1123 (underscores allowed). */
static bool host_read(const char *text, size_t size, char ret_host[EGRESS_HOST_BYTES],
                      bool *ret_literal, struct egress_address *ret_address)
{
    char host[EGRESS_HOST_BYTES] = "";
    if (size == 0 || size >= sizeof host || memchr(text, '\0', size)) {
        return false;
    }
    memcpy(host, text, size);
    *ret_literal = address_read(host, ret_address);
    if (*ret_literal) {
        (void)address_print(ret_address, host);
    } else {
        for (size_t i = 0; i < size; i++) {
            host[i] = name_char(text[i]);
            if (!host[i]) {
                return false;
            }
        }
        if (host[size - 1] == '.') {
            host[size - 1] = '\0';
        }
        if (!labels_are_valid(host)) {
            return false;
        }
    }
    memcpy(ret_host, host, sizeof host);
    return true;
}

bool digits_read(const char *text, size_t size, size_t most, uint64_t *ret_value)
{
    uint64_t value = 0;
    bool valid = size > 0 && size <= most;
    for (size_t i = 0; valid && i < size; i++) {
        valid = is_digit(text[i]);
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret_value = valid ? value : 0;
    return valid;
}

static bool port_read(const char *text, size_t size, uint16_t *ret_port)
{
    uint64_t port = 0;
    (void)digits_read(text, size, PORT_DIGITS, &port);
    *ret_port = port <= UINT16_MAX ? (uint16_t)port : 0;
    return *ret_port != 0;
}

bool target_read(const char *text, size_t size, struct target *ret_target)
{
    struct target target = {};
    const char *host = text;
    bool bracketed = size > 0 && text[0] == '[';
    const char *end = memchr(text, bracketed ? ']' : ':', size);
    size_t host_size = end ? (size_t)(end - text) : size;
    const char *rest = text + host_size;
    if (bracketed) {
        if (!end) {
            return false;
        }
        host++;
        host_size--;
        rest++;
    }
    size_t rest_size = size - (size_t)(rest - text);
    if (!host_read(host, host_size, target.host, &target.literal, &target.address) ||
        (bracketed && (!target.literal || !memchr(host, ':', host_size))) ||
        (rest_size > 0 && (rest[0] != ':' || !port_read(rest + 1, rest_size - 1, &target.port)))) {
        return false;
    }
    *ret_target = target;
    return true;
}
