#pragma once
#include "sandbox/types.h"

/* The server's side of the egress proxy: starts it, restarts it when it dies, and receives what it
 * refuses. */

struct egress_proxy;
struct loop;

/* What an egress proxy works with. listen_fd: a listening socket of the sandbox's network, or one
 * with a path. scratch: of a sandbox without namespaces, which outlives the egress proxy, or
 * NULL. */
struct egress_setup {
    const struct egress_policy *policy;
    const struct box_scratch *scratch;
    int listen_fd;
    egress_event_fn on_event; /* called for each refusal; may be NULL */
    void *arg;
};

/* Takes listen_fd, also on failure; copies setup and policy. The egress proxy starts in parallel
 * with the caller; an error that prevents its start is logged and reported as EGRESS_UNREACHABLE. 0
 * or -errno. */
[[nodiscard]] int egress_proxy_start(struct loop *loop, const struct egress_setup *setup,
                                     struct egress_proxy **ret_egress, struct fail *ret_fail);

/* Reports what it has refused so far. */
void egress_proxy_receive(struct egress_proxy *egress);

/* Stops the egress proxy and all its connections. egress may be NULL. */
void egress_proxy_stop(struct egress_proxy *egress);

/* Adds a host, like egress_policy_add(); takes effect at once. */
int egress_proxy_allow(struct egress_proxy *egress, const char *word, struct fail *ret_fail);
