#pragma once
#include "sandbox/box/box.h"

struct box_packages;

/* What box.c needs of the interpreters in a sandbox: the zygote, and the sessions forked from
 * it. */

extern const struct box_role zygote_role;

/* What the sessions' sandbox shows and runs. packages: NULL, or open. */
void zygote_content(const struct box_spec *spec, const struct box_packages *packages,
                    struct plan_content *content);

/* The sandbox has no processes left: ends all sessions. */
void session_end_all(struct box *box);
