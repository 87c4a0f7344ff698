#pragma once
#include "sandbox/types.h"

struct box_packages;
struct buf;

/* --- which protections are on: report/isolation.h --- */

/* Starts a real sandbox with spec, checks its protections and kills it. Blocks for some tens of
 * milliseconds: for doctor. */
void box_probe(const struct box_spec *spec, struct box_report *report);

/* Prints the plan of a sandbox with spec, one step per line. */
int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail);

/* --- the sandbox --- */

/* Starts a sandbox. packages: NULL, or outlives the sandbox. 0: on_state will be called. -errno: it
 * could not begin, see ret_fail. BOX_READY means that each required protection was tested in this
 * sandbox. */
[[nodiscard]] int box_start(const struct box_spec *spec, struct box_packages *packages,
                            const struct box_owner *owner, struct box **ret_box,
                            struct fail *ret_fail);

/* Kills everything in the sandbox at once. Before it returns, sessions receive on_end, file
 * operations their result, and on_state BOX_DEAD. Takes milliseconds. */
void box_kill(struct box *box);

/* box may be NULL; kills a running sandbox first. */
void box_free(struct box *box);

enum box_state box_state(const struct box *box);
/* Bytes of the memory limit in use; above matters_bytes, without what the kernel could reclaim. 0:
 * unknown. */
uint64_t box_memory_used(struct box *box, uint64_t matters_bytes);
/* While more than from_bytes of the memory limit are in use, code that allocates waits, so that the
 * server has time to free some; 0: no longer. Only control groups of version 2 can do this. */
void box_memory_slow(struct box *box, uint64_t from_bytes);
/* Memory is short: the kernel shall kill processes of the session that fills it before others; or
 * no longer. */
void box_memory_rank(struct box *box, bool is_short);
/* Whether the kernel has killed a process for memory since the last call of this function, or since
 * the last session that ended for this reason. */
bool box_memory_killed(struct box *box);
