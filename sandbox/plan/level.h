#pragma once
#include "sandbox/types.h"

/* The only place that resolves the requested isolation level and decides which one is effective.
 * Pure. */

/* Resolves BOX_ISOLATION_BEST; returns any other level unchanged. namespaces: the namespace check
 * has found that they can be made, see launch/namespace_check.c. */
enum box_isolation level_choose(enum box_isolation requested, bool namespaces);

/* The level that the plan for this request aims at. The kernel decides about /proc when the sandbox
 * is made: a check beforehand would cost each start time, and only few hosts refuse it. */
enum box_level level_expected(enum box_isolation requested);

/* The effective level. has_proc: the self-test has seen the sandbox's own /proc. */
enum box_level level_found(enum box_level expected, bool has_proc);

/* Whether a sandbox continues without /proc when the kernel refuses it. */
bool level_spares_proc(enum box_isolation requested);
