#pragma once
#include <poll.h>

#include "sandbox/egress/messages.h"
#include "sandbox/egress/policy.h"
#include "sandbox/egress/upstream.h"

/* Internals of the egress proxy's program: one thread, one poll(2), no heap. */

enum {
    PROXY_FLOWS = 256,                          /* at one time; more wait in the listening socket */
    PROXY_PIPE_BYTES = 32768,                   /* per direction; a request's head fits twice */
    PROXY_CANDIDATES = 8,                       /* addresses that are tried per name */
    PROXY_LOOKUPS = EGRESS_ROWS + EGRESS_KINDS, /* the upstream proxies follow the rows */
    PROXY_POLLED = 2 + PROXY_LOOKUPS + 2 * PROXY_FLOWS,
};

enum {
    PROXY_HEAD_MS = 10000,                         /* until a request's head is complete */
    PROXY_HEAD_FULL_MS = 1000,                     /* the same while all slots are taken */
    PROXY_RESOLVE_MS = 10000,                      /* to resolve a name */
    PROXY_TRY_MS = 2000,                           /* per name server */
    PROXY_CONNECT_MS = 5000,                       /* per address */
    PROXY_UPSTREAM_MS = 1000 * UPSTREAM_CONNECT_S, /* all addresses of an upstream proxy */
    PROXY_REPLY_MS = 1000 * UPSTREAM_REPLY_S,      /* for its reply to CONNECT */
    PROXY_PAGE_MS = 1000 * UPSTREAM_PAGE_S, /* for that to a path, without a byte either way */
    PROXY_PASSWORD_MS = 1000 * UPSTREAM_PASSWORD_S, /* until a refused password is sent again */
    PROXY_IDLE_MS = 300000,                         /* without a byte in either direction */
    PROXY_LINGER_MS = 1000,                         /* for the client to read a refusal */
    PROXY_LIFE_MS = 14400000,                       /* of one connection */
    PROXY_TTL_LEAST_MS = 1000,
    PROXY_TTL_MOST_MS = 60000,
};
#define PROXY_FLOW_BYTES (64ULL << 30) /* of one connection, both ways together */

enum lookup_state { LOOKUP_NONE, LOOKUP_ASKING, LOOKUP_FOUND, LOOKUP_NO_NAME, LOOKUP_SILENT };

/* What a row's name resolves to. All connections to the name share it, so that a flood of them
 * causes one query; and it is checked as a whole. */
struct lookup {
    enum lookup_state state;
    char name[EGRESS_HOST_BYTES]; /* that is asked for */
    unsigned names;               /* of an upstream proxy: how many were asked for, with domains */
    uint64_t deadline_ns;         /* while querying: of this try; else: when the result expires */
    uint64_t give_up_ns;
    unsigned tries;
    bool tcp;
    int fd;
    uint16_t ids[2];                       /* of the queries for A and AAAA */
    bool answered[2];                      /* a server has responded for this family */
    bool no_name;                          /* and reports that the name does not exist */
    struct dns_answer families[2];         /* A, AAAA */
    uint8_t out[2 * (2 + DNS_QUERY_MOST)]; /* over TCP: the queries, each after its length, */
    size_t out_size;                       /* the unsent rest of them, at the end, */
    size_t out_sent;
    uint8_t in[2 + DNS_MESSAGE_MOST]; /* and the received part of the responses */
    size_t in_size;
};

struct proxy {
    struct egress_policy policy;
    struct egress_known known[EGRESS_ROWS];
    struct egress_resolvers resolvers;
    struct egress_ways ways;
    struct egress_known upstream_known[EGRESS_KINDS];
    uint64_t password_ns[EGRESS_KINDS]; /* until then, a refused password is not sent again */
    int control_fd;
    int listen_fd;
    uint32_t missed; /* events that the server did not take */
    struct lookup lookups[PROXY_LOOKUPS];
};

/* Reports to the server. event: NULL: none. Does not block. */
void proxy_tell(struct proxy *proxy, enum egress_notice_kind kind,
                const struct egress_event *event);

/* main.c: names */
/* Starts to connect a socket to an address, without blocking. type: SOCK_STREAM or
 * SOCK_DGRAM. Returns the descriptor, or -errno if the address is known to be unreachable at
 * once. */
int connect_start(const struct egress_address *address, uint16_t port, int type);
void lookup_want(struct proxy *proxy, unsigned row, uint64_t now_ns);
/* Copies the addresses found, IPv4 first. Returns their number. */
size_t lookup_addresses(const struct lookup *lookup,
                        struct egress_address addresses[2 * DNS_ADDRESSES]);

/* flow.c: the connections. */
bool flows_have_space(void);
void flows_accept(struct proxy *proxy, uint64_t now_ns);
/* Fills two entries per flow. Returns their number; *deadline_ns becomes the nearest one. */
nfds_t flows_poll(struct pollfd *polled, uint64_t *deadline_ns);
void flows_step(struct proxy *proxy, const struct pollfd *polled, uint64_t now_ns);
