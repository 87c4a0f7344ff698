#pragma once
#include "sandbox/egress.h"

/* What server and broker say to each other over a SOCK_SEQPACKET pair. From the server: one struct
 * egress_setup with the listening socket, then a row whenever the user allows one more, or name
 * servers when they are asked for. From the broker: struct egress_notice. */

enum { EGRESS_RESOLVERS = 3, EGRESS_KNOWN = 4, EGRESS_FILTER_MOST = 512 };

struct egress_resolvers {
    unsigned count;
    struct egress_address servers[EGRESS_RESOLVERS]; /* at port 53 */
};

/* What the host's own table says of a row's name, hosts(5). */
struct egress_known {
    unsigned count;
    struct egress_address addresses[EGRESS_KNOWN];
};

struct egress_config {
    struct egress_resolvers resolvers;
    unsigned row_count;
    struct egress_row rows[EGRESS_ROWS];
    struct egress_known known[EGRESS_ROWS];
    char flag[32];
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
    EGRESS_NOTICE_NO_RESOLVER, /* none answers: the host may be in another network by now */
};

struct egress_notice {
    uint32_t kind;   /* enum egress_notice_kind */
    uint32_t missed; /* events that could not be sent before this one */
    struct egress_event event;
};
