#pragma once
#include "sandbox/layer.h"

/* The one place that decides which grade of sandbox is built here, and which one came of it. Pure. */

/* What BOX_ISOLATION_BEST means here, and any other wish unchanged. namespaces: a rehearsal has shown that they
 * can be had, see rehearsal.h. */
enum box_isolation surrounding_choose(enum box_isolation wish, bool namespaces);

/* What the plan leads to by the user's wish. Whether /proc can be had is found out by trying: asking
 * beforehand would cost each start what only few surroundings need. */
enum box_profile surrounding_expect(enum box_isolation wish);

/* What came of it. has_proc: the witness inside has seen a /proc of the box's own. */
enum box_profile surrounding_found(enum box_profile expected, bool has_proc);

/* Whether a box whose /proc the kernel refused goes on without it. */
bool surrounding_spares_proc(enum box_isolation wish);
