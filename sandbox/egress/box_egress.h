#pragma once
#include "sandbox/egress/policy.h"
#include "sandbox/types.h"

/* The egress proxy of a running sandbox. */

/* Adds a host to a running sandbox's policy, like egress_policy_add(); takes effect at once. */
int box_allow_host(struct box *box, const char *word, struct fail *ret_fail);

/* Reports what the egress proxy has refused so far. Call it when a result arrives, so that earlier
 * refusals are reported before the result. */
void box_receive_refusals(struct box *box);

/* Asks init for the listening socket and starts the proxy with it, if the spec requests one. Must
 * precede every request to the guest. 0 or -errno */
int box_egress_start(struct box *box, struct fail *ret_fail);
/* Makes the listening socket where init cannot. Must be called before init gets its settings. 0 or
 * -errno */
int box_egress_listen(struct box *box, struct fail *ret_fail);
void box_egress_end(struct box *box); /* idempotent */

/* For doctor: whether hosts can be reached through the upstream proxy. */

enum { EGRESS_TRIES = 8, EGRESS_TRY_MS = 5000 };

struct egress_try {
    struct target target;
    bool reached;
    char text[EGRESS_TEXT_BYTES]; /* else why not */
};

/* Asks an egress proxy of its own for all of them at once: for a tunnel, or at port 80 for a page's
 * head. Takes at most EGRESS_TRY_MS. Fills reached and text. count: at most EGRESS_TRIES. */
void egress_try_all(const struct box_spec *spec, struct egress_try *tries, unsigned count);
