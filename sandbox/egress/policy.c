#include "sandbox/egress/policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

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

static const char *address_print(const struct egress_address *address,
                                 char text[ADDRESS_TEXT_BYTES])
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
    {{0}, 32, a_loopback},                /* "this host": Linux connects to itself */
    {{0}, 8, a_reserved},
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
    {{0}, 128, a_loopback}, /* "this host", as of IPv4 */
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

bool name_is_below(const char *host, const char *domain)
{
    size_t size = strlen(host);
    size_t end = strlen(domain);
    return size >= end && strcmp(host + size - end, domain) == 0 &&
           (size == end || host[size - end - 1] == '.');
}

const char *name_error(const char *host)
{
    static const struct {
        const char *domain;
        const char *what;
    } rows[] = {
        {"localhost", a_loopback}, /* RFC 6761 6.3 */
        {"localhost.localdomain", a_loopback},
        {"ip6-localhost", a_loopback},
        {"ip6-loopback", a_loopback},
        {"local", "a name of the local network"}, /* RFC 6762 3 */
        {"internal", "a name of an internal network"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (name_is_below(host, rows[i].domain)) {
            return rows[i].what;
        }
    }
    return NULL;
}

/* The character in lower case, or NUL if no name may contain it. */
static char name_char(char c)
{
    bool ours = parse_is_alnum(c) || c == '-' || c == '_' || c == '.';
    return (char)(ours ? parse_lower(c) : 0);
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
            return !parse_is_digit(label[0]);
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
        valid = parse_is_digit(text[i]);
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

/* --- policy --- */

enum { ROWS_REPORTED = 4 };

static const uint16_t default_ports[EGRESS_PORTS] = {443, 80};

static bool row_is(const struct egress_row *row, const struct target *target, uint16_t port)
{
    bool same = row->literal == target->literal &&
                (row->literal ? address_equal(&row->address, &target->address)
                              : strcmp(row->host, target->host) == 0);
    return same && (row->ports[0] == port || row->ports[1] == port);
}

static bool has(const struct egress_policy *policy, const struct target *target, uint16_t port)
{
    for (unsigned i = 0; i < policy->count; i++) {
        if (row_is(&policy->rows[i], target, port)) {
            return true;
        }
    }
    return false;
}

int egress_policy_add(struct egress_policy *policy, const char *word, struct fail *ret_fail)
{
    struct target target;
    const char *flag = policy->flag ? policy->flag : "a host";
    if (!target_read(word, strlen(word), &target)) {
        return fail_set(ret_fail, EINVAL,
                        "%s takes NAME, NAME:PORT or an address such as 192.0.2.1:80 or [::1]:80, "
                        "not \"%.100s\" (write an internationalised name in its xn-- form)",
                        flag, word);
    }
    struct egress_row row = {
        .ports = {target.port}, .literal = target.literal, .address = target.address};
    if (target.port == 0) {
        memcpy(row.ports, default_ports, sizeof row.ports);
    }
    if (has(policy, &target, row.ports[0]) &&
        (row.ports[1] == 0 || has(policy, &target, row.ports[1]))) {
        return 0;
    }
    if (policy->count == EGRESS_ROWS) {
        return fail_set(ret_fail, ENOSPC, "%s: at most %d hosts", flag, EGRESS_ROWS);
    }
    memcpy(row.host, target.host, sizeof row.host);
    policy->rows[policy->count++] = row;
    return 0;
}

int egress_policy_allow(struct egress_policy *policy, const char *word, struct fail *ret_fail)
{
    unsigned before = policy->count;
    int r = egress_policy_add(policy, word, ret_fail);
    if (policy->count > before) {
        policy->rows[before].asked = true;
    }
    return r;
}

const char *target_print(const struct target *target, char text[TARGET_BYTES])
{
    bool brackets = strchr(target->host, ':') != NULL;
    (void)snprintf(text, TARGET_BYTES, "%s%s%s:%u", brackets ? "[" : "", target->host,
                   brackets ? "]" : "", target->port);
    return text;
}

void event_set(struct egress_event *event, enum egress_event_kind kind, const struct target *target,
               const char *fmt, ...)
{
    char name[TARGET_BYTES];
    va_list args;
    *event = (struct egress_event){.kind = kind, .port = target->port};
    memcpy(event->host, target->host, sizeof event->host);
    int used = target->host[0]
                   ? snprintf(event->text, sizeof event->text, "%s ", target_print(target, name))
                   : 0;
    va_start(args, fmt);
    (void)vsnprintf(event->text + used, sizeof event->text - (size_t)used, fmt, args);
    va_end(args);
}

/* "a.example, b.example:8080 and 3 more" */
static void list_hosts(const struct egress_policy *policy, char *text, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < policy->count && i < ROWS_REPORTED && used < size; i++) {
        const struct egress_row *row = &policy->rows[i];
        int n = row->ports[1]
                    ? snprintf(text + used, size - used, "%s%.60s", i ? ", " : "", row->host)
                    : snprintf(text + used, size - used, "%s%.60s:%u", i ? ", " : "", row->host,
                               row->ports[0]);
        used += (size_t)n;
    }
    if (policy->count > ROWS_REPORTED && used < size) {
        (void)snprintf(text + used, size - used, " and %u more", policy->count - ROWS_REPORTED);
    }
}

int policy_find(const struct egress_policy *policy, const struct target *target,
                struct egress_event *ret_event)
{
    char hosts[256] = "none";
    char name[TARGET_BYTES];
    for (unsigned i = 0; i < policy->count; i++) {
        if (row_is(&policy->rows[i], target, target->port)) {
            return (int)i;
        }
    }
    /* Of a service of the user's own, nobody is asked: one click among others would open it. */
    const char *error =
        target->literal ? address_error(&target->address) : name_error(target->host);
    if (error) {
        event_set(ret_event, EGRESS_REFUSED_ADDRESS, target,
                  "is %s; only the user can allow it, at the server's start: %s %.100s", error,
                  policy->flag, target_print(target, name));
        return -1;
    }
    list_hosts(policy, hosts, sizeof hosts);
    event_set(ret_event, EGRESS_REFUSED_HOST, target,
              "is not an allowed host (%s); the user can allow it%s: %s %.100s", hosts,
              policy->ask ? " when asked, or at the start" : "", policy->flag,
              target_print(target, name));
    return -1;
}

bool policy_allows_addresses(const struct egress_policy *policy, const struct target *target,
                             const struct egress_address *addresses, size_t count,
                             struct egress_event *ret_event)
{
    static const char loopback[] = "a loopback address";
    for (size_t i = 0; i < count; i++) {
        const char *error = address_error(&addresses[i]);
        const struct target named = {.literal = true, .address = addresses[i]};
        bool own = error && (policy->any_address ? !strstr(error, "metadata")
                                                 : strcmp(error, loopback) == 0 &&
                                                       strcmp(target->host, "localhost") == 0);
        if (error && !own && !has(policy, &named, target->port)) {
            char text[ADDRESS_TEXT_BYTES];
            struct target at = {.port = target->port};
            char name[TARGET_BYTES];
            (void)snprintf(at.host, sizeof at.host, "%s", address_print(&addresses[i], text));
            event_set(ret_event, EGRESS_REFUSED_ADDRESS, target,
                      "resolves to %s, %s; the user can allow that address: %s %s", text, error,
                      policy->flag, target_print(&at, name));
            return false;
        }
    }
    return true;
}

/* --- how a host resolves names --- */

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

/* A domain to search, in lower case. */
static bool domain_read(const char *word, char ret_domain[EGRESS_HOST_BYTES])
{
    struct target target;
    bool valid = target_read(word, strlen(word), &target) && !target.literal && !target.port;
    memcpy(ret_domain, target.host, valid ? EGRESS_HOST_BYTES : 0);
    return valid;
}

void resolvers_of_text(const char *text, struct egress_resolvers *ret_resolvers)
{
    struct egress_resolvers found = {};
    char word[EGRESS_HOST_BYTES];
    for (; *text; text = next_line(text)) {
        const char *at = text;
        if (!next_word(&at, word)) {
            continue;
        }
        if (strcmp(word, "nameserver") == 0 && next_word(&at, word) &&
            found.count < EGRESS_RESOLVERS) {
            found.count += address_read(word, &found.servers[found.count]);
        } else if (strcmp(word, "search") == 0 || strcmp(word, "domain") == 0) {
            found.search_count = 0; /* the last line counts */
            while (found.search_count < EGRESS_SEARCH && next_word(&at, word)) {
                found.search_count += domain_read(word, found.search[found.search_count]);
            }
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
