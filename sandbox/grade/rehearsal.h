#pragma once
#include <stdbool.h>

struct box_spec;

/* Whether a box with namespaces can be made here: a child goes the way to a root of its own, by the steps of
 * a plan, and ends there. Blocks for some milliseconds. A proof is not made of it: each box makes its own. */
bool rehearsal_succeeds(void);

/* Makes of BOX_ISOLATION_BEST what can be had here. Where paths and texts are made of a spec, this comes first. */
void rehearsal_settle(struct box_spec *spec);
