#pragma once
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
