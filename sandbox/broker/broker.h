#pragma once
#include "sandbox/egress.h"

/* The server's side of the egress broker: starts it, starts it anew when it dies, hears what it refuses. */

struct egress;
struct ids;
struct loop;

struct egress_owner {
    egress_event_fn fn; /* told of each refusal; may be NULL */
    void *arg;
};

/* What a broker works with: listen_fd: a listening socket of the box's network, or one with a name; ids: of
 * a box without namespaces, which outlive the broker, or NULL. */
struct egress_setup {
    const struct egress_policy *policy;
    const struct ids *ids;
    int listen_fd;
};

/* listen_fd is taken, also on failure; policy and owner are copied. The broker starts beside the caller;
 * what it cannot start for is logged and told as an EGRESS_UNREACHABLE. 0 or -errno. */
[[nodiscard]] int egress_start(struct loop *loop, const struct egress_setup *setup,
                               const struct egress_owner *owner, struct egress **ret_egress,
                               struct fail *ret_fail);

/* Tells what it has refused up to now. */
void egress_hear(struct egress *egress);

/* Ends the broker and all its connections. egress may be NULL. */
void egress_stop(struct egress *egress);

/* One host more, from now on. As egress_policy_add(). */
int egress_allow(struct egress *egress, const char *word, struct fail *ret_fail);
