#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

struct box;

/* What a box may reach, and what it was refused. A box has no network but its own loopback. With a
 * policy one socket listens there, whose connections a broker outside takes: a program of its own
 * (sandbox/egress), confined, which connects to what the policy names and to nothing else. */

enum {
    EGRESS_ROWS = 64,
    EGRESS_HOST_BYTES = 254, /* the longest name, RFC 1035, and a NUL */
    EGRESS_PORTS = 2,
    EGRESS_TEXT_BYTES = 400,
    EGRESS_PROXY_PORT = 3128, /* on 127.0.0.1 of the box's network, where nobody else listens */
};
#define EGRESS_PROXY_URL "http://127.0.0.1:3128"

/* As IPv6; IPv4 as ::ffff:a.b.c.d, so that each address has one form. */
struct egress_address {
    uint8_t bytes[16];
};

struct egress_row {
    char
        host[EGRESS_HOST_BYTES]; /* lower case, no dot at its end; or an address as it is printed */
    uint16_t ports[EGRESS_PORTS]; /* 0: none */
    bool literal;                 /* the user named an address */
    struct egress_address address;
};

struct egress_policy {
    struct egress_row rows[EGRESS_ROWS];
    unsigned count;
    bool ask;         /* the user may be asked for more; the broker does not look at it */
    const char *flag; /* "--allow-host": what a refusal says that the user can set; borrowed */
};

/* word: "NAME", "NAME:PORT", "192.0.2.1:80", "[2001:db8::1]:80"; without a port: 443 and 80. One that
 * is there already is not added again. 0 or -errno with a sentence. */
int egress_policy_add(struct egress_policy *policy, const char *word, struct fail *ret_fail);

/* The same for a box that has a policy and runs: one host more, from now on. */
int box_allow_host(struct box *box, const char *word, struct fail *ret_fail);

/* Tells what the broker has refused up to now. To be called when a result has come: what was refused
 * before it is told before it. */
void box_hear_refusals(struct box *box);

enum egress_event_kind {
    EGRESS_REFUSED_HOST,    /* not in the policy */
    EGRESS_REFUSED_ADDRESS, /* the name leads to an address that is not public */
    EGRESS_REFUSED_REQUEST, /* not understood, or not taken */
    EGRESS_REFUSED_LIMIT,   /* of bytes or time */
    EGRESS_UNREACHABLE,     /* allowed, but there is no such name or nobody answers */
    EGRESS_EVENT_COUNT,
};

struct egress_event {
    enum egress_event_kind kind;
    uint16_t port;
    char host[EGRESS_HOST_BYTES]; /* "" where none could be read */
    char text[EGRESS_TEXT_BYTES]; /* one sentence of printable ASCII */
};

typedef void (*egress_event_fn)(void *arg, const struct egress_event *event);
