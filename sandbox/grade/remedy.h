#pragma once
#include "sandbox/grade/host.h"
#include "sandbox/plan/plan.h"

/* What to do about a layer that does not hold: exact, and for the host it is said on. Pure. */

/* A mandatory layer that could not be had. kind: the step of the plan that did not work, or
 * PLAN_KIND_COUNT where it was none of them; error: its errno value. */
void remedy_for_layer(enum box_layer layer, enum plan_kind kind, int error, const struct host *host,
                      struct box_grade *grade);

/* The proof found a layer that was made and does not hold. */
void remedy_for_finding(struct box_layer_report *report);

/* A sandbox without /proc: what hides parts of the one around it, and what to do. */
void remedy_for_proc(const struct host *host, struct box_layer_report *report);

/* No Landlock here: why, and what to do. */
void remedy_for_landlock(const struct host *host, struct box_layer_report *report);

/* No control group for a limit. known: what whoever looked for one advises outside of a container, or
 * NULL. */
void remedy_for_limit(const struct host *host, const char *known, struct box_layer_report *report);
