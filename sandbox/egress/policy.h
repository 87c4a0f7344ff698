#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/types.h"

/* Internet addresses: their canonical form, their spelling, and whether a sandbox may connect to
 * them. Pure. */

enum { ADDRESS_TEXT_BYTES = 46 };

struct egress_address address_from_v4(const uint8_t bytes[4]);
bool address_is_v4(const struct egress_address *address);
bool address_equal(const struct egress_address *a, const struct egress_address *b);

/* Reads "192.0.2.1" or any form of "2001:db8::1". Of IPv4 it accepts only the plain decimal
 * spelling: programs disagree on octal and hexadecimal numbers. */
bool address_read(const char *text, struct egress_address *ret_address);
/* NULL for a public address, else its kind: "a private address", … */
const char *address_error(const struct egress_address *address);

/* The same for a name that is known to lead to no public address, wherever it is resolved. */
const char *name_error(const char *host);
/* Whether host is domain or a name in it. Both: in their canonical form. */
bool name_is_below(const char *host, const char *domain);

/* "NAME:PORT", "[ADDRESS]:PORT" or without a port, which then is 0. */
struct target {
    char host[EGRESS_HOST_BYTES];
    uint16_t port;
    bool literal;
    struct egress_address address;
};

bool target_read(const char *text, size_t size, struct target *ret_target);

enum { TARGET_BYTES = EGRESS_HOST_BYTES + 10 };

/* "host:port", with brackets where it needs them. Returns text. */
const char *target_print(const struct target *target, char text[TARGET_BYTES]);

/* A number of 1 to most digits; most: below 20. */
bool digits_read(const char *text, size_t size, size_t most, uint64_t *ret_value);

/* --- policy --- */

/* What a policy decides about a request and about the addresses of its name. Pure. */

/* Returns the row that allows the target, or -1 with an event that lists what is allowed. */
int policy_find(const struct egress_policy *policy, const struct target *target,
                struct egress_event *ret_event);

/* Whether a target that a row allows may be connected to all of these addresses. An address that is
 * not public must itself be named as an address; "localhost" names the loopback addresses. */
bool policy_allows_addresses(const struct egress_policy *policy, const struct target *target,
                             const struct egress_address *addresses, size_t count,
                             struct egress_event *ret_event);

/* Fills an event for target. text: the sentence that follows "HOST:PORT ". */
__attribute__((format(printf, 4, 5))) void event_set(struct egress_event *event,
                                                     enum egress_event_kind kind,
                                                     const struct target *target, const char *fmt,
                                                     ...);

/* word: "NAME", "NAME:PORT", "192.0.2.1:80", "[2001:db8::1]:80"; without a port: 443 and 80. Does
 * not add a host twice. 0 or -errno with a sentence. */
int egress_policy_add(struct egress_policy *policy, const char *word, struct fail *ret_fail);
/* The same for a host that the user has allowed when asked. */
int egress_policy_allow(struct egress_policy *policy, const char *word, struct fail *ret_fail);

/* Messages between server and egress proxy, over a SOCK_SEQPACKET pair. The server sends the
 * listening socket and the memory of EGRESS_REFUSED_BYTES, then a row for each host that the user
 * allows later, and name servers when the proxy requests them. The egress proxy sends struct
 * egress_notice. */

/* Memory that all egress proxies of a server share, a byte for each kind of upstream proxy: 1, it
 * has refused the login. None of them then sends that again, as this often locks an account. */
enum { EGRESS_REFUSED_BYTES = EGRESS_KINDS };

enum { EGRESS_RESOLVERS = 3, EGRESS_KNOWN = 4, EGRESS_SEARCH = 6 };

struct egress_resolvers {
    unsigned count;
    struct egress_address servers[EGRESS_RESOLVERS]; /* at port 53 */
    unsigned search_count;
    char search[EGRESS_SEARCH][EGRESS_HOST_BYTES]; /* domains, for names of upstream proxies only */
};

/* The addresses that the host's own table, hosts(5), has for a row's name. */
struct egress_known {
    unsigned count;
    struct egress_address addresses[EGRESS_KNOWN];
};

/* Both are the server's to read: the proxy opens no files. The "nameserver" lines of
 * resolv.conf(5), or this machine itself where there are none, and the last "search" or "domain";
 * and the addresses of a name in hosts(5). */
void resolvers_of_text(const char *text, struct egress_resolvers *ret_resolvers);
void known_of_text(const char *text, const char *name, struct egress_known *ret_known);

struct egress_config {
    struct egress_resolvers resolvers;
    bool any_address;
    bool ask;
    unsigned row_count;
    struct egress_row rows[EGRESS_ROWS];
    struct egress_known known[EGRESS_ROWS];
    char flag[32];
    struct egress_ways ways;
    struct egress_known upstream_known[EGRESS_KINDS];
    unsigned filter_count; /* instructions (struct sock_filter) that follow this */
};

enum egress_order_kind { EGRESS_ORDER_ROW, EGRESS_ORDER_RESOLVERS };

struct egress_order {
    uint32_t kind; /* enum egress_order_kind */
    struct egress_row row;
    struct egress_known known;
    struct egress_resolvers resolvers;
};

enum egress_notice_kind {
    EGRESS_NOTICE_EVENT,
    EGRESS_NOTICE_NO_RESOLVER, /* no server responds: the host may have moved to another network */
};

struct egress_notice {
    uint32_t kind;   /* enum egress_notice_kind */
    uint32_t missed; /* number of events that could not be sent before this one */
    struct egress_event event;
};
