#pragma once
#include "sandbox/types.h"

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
