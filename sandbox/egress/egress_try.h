#pragma once
#include "sandbox/egress/policy.h"

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
