#pragma once
#include <poll.h>

#include "sandbox/egress/dns.h"
#include "sandbox/egress/policy.h"
#include "sandbox/egress/request.h"
#include "sandbox/egress/wire.h"

/* Inside of the broker's program: one thread, one poll(2), no heap. */

enum {
    BROKER_FLOWS = 256,        /* connections at one time; more wait in the listening socket */
    BROKER_PIPE_BYTES = 32768, /* of each direction; a request's head fits twice */
    BROKER_CANDIDATES = 8,     /* addresses of one name that are tried */
    BROKER_POLLED = 2 + EGRESS_ROWS + 2 * BROKER_FLOWS,
};

enum {
    BROKER_HEAD_MS = 10000,     /* for a request's head to be whole */
    BROKER_HEAD_FULL_MS = 1000, /* the same while all places are taken */
    BROKER_RESOLVE_MS = 10000,  /* for a name */
    BROKER_TRY_MS = 2000,       /* for a name server, before the next one is asked */
    BROKER_CONNECT_MS = 5000,   /* for one address, before the next one is tried */
    BROKER_IDLE_MS = 300000,    /* without a byte in either direction */
    BROKER_LINGER_MS = 1000,    /* for a refusal to be read */
    BROKER_LIFE_MS = 14400000,  /* of one connection */
    BROKER_TTL_LEAST_MS = 1000,
    BROKER_TTL_MOST_MS = 60000,
};
#define BROKER_FLOW_BYTES (64ULL << 30) /* of one connection, both ways together */

enum lookup_state { LOOKUP_NONE, LOOKUP_ASKING, LOOKUP_FOUND, LOOKUP_NO_NAME, LOOKUP_SILENT };

/* What a row's name stands for. One for all connections that want it, so that a flood of them is one
 * question; and judged as a whole. */
struct lookup {
    enum lookup_state state;
    uint64_t deadline_ns; /* asking: of this try; else: until when the answer is good */
    uint64_t give_up_ns;
    unsigned tries;
    bool tcp;
    int fd;
    uint16_t ids[2];                       /* of the questions for A and AAAA */
    bool answered[2];                      /* a server has spoken of this family */
    bool no_name;                          /* and says that there is none */
    struct dns_answer families[2];         /* A, AAAA */
    uint8_t out[2 * (2 + DNS_QUERY_MOST)]; /* over TCP: the questions, each behind its length, */
    size_t out_size;                       /* what is left of them at its end, */
    size_t out_sent;
    uint8_t in[2 + DNS_MESSAGE_MOST]; /* and what has come of the answers */
    size_t in_size;
};

struct broker {
    struct egress_policy policy;
    struct egress_known known[EGRESS_ROWS];
    struct egress_resolvers resolvers;
    int control_fd;
    int listen_fd;
    uint32_t missed; /* events that the server did not take */
    struct lookup lookups[EGRESS_ROWS];
};

/* main.c: tells the server. Does not wait. */
void broker_tell(struct broker *broker, const struct egress_event *event);
void broker_ask_resolvers(struct broker *broker);

/* confine.c: takes from this process what it does not need. False: something of it did not work. */
bool broker_confine(const struct egress_config *config);

/* lookup.c */
void lookup_want(struct broker *broker, unsigned row, uint64_t now_ns);
void lookup_poll(const struct lookup *lookup, struct pollfd *ret_polled); /* fd -1: nothing */
/* After something has come, or its time is over. */
void lookup_step(struct broker *broker, unsigned row, short revents, uint64_t now_ns);
/* Copies what was found, IPv4 first. Returns how many. */
size_t lookup_addresses(const struct lookup *lookup,
                        struct egress_address addresses[2 * DNS_ADDRESSES]);

/* flow.c: the connections. */
bool flows_have_room(void);
void flows_accept(struct broker *broker, uint64_t now_ns);
/* Fills two entries a flow from polled on. Returns how many; *deadline_ns becomes the nearest one. */
nfds_t flows_poll(struct pollfd *polled, uint64_t *deadline_ns);
void flows_step(struct broker *broker, const struct pollfd *polled, uint64_t now_ns);
