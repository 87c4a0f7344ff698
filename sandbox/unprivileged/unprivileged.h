#pragma once
#include "sandbox/plan/plan.h"
#include "sandbox/scratch.h"
#include "sandbox/types.h"

/* All that the other directories need of the isolation level without namespaces, `container`: its
 * plans, its scratch directory and its supervisor. A build without it (-Dunprivileged=false) has
 * absent.c in its place. Other modules use scratch.h beside it. */

/* --- plans: of this level if spec or the plan requests it, else of those with namespaces --- */

plan_add_fn level_plan(const struct box_spec *spec);
plan_compile_fn level_filters(const struct plan *plan);
void level_installer_ids(const struct box_spec *spec, const struct host_facts *facts,
                         uid_t *ret_uid, gid_t *ret_gid);
/* scratch: NULL with namespaces. */
void level_plan_proxy(const struct box_scratch *scratch, const struct host_facts *facts,
                      struct plan *plan);

/* --- the scratch directory --- */

/* Makes the directories that the sessions' next sandbox writes to: new, empty, owned by that user.
 * Leaves the user's own workspace as it is. 0 or -errno */
int scratch_prepare(struct box_scratch *scratch, uid_t uid, gid_t gid, struct fail *ret_fail);

/* Writes the files of an installer's program, once, and points paths to them. bundle: one more
 * file, or NULL. 0 or -errno */
int scratch_add_installer(struct box_scratch *scratch, const struct embedded *files,
                          const struct embedded *bundle, struct box_paths *paths,
                          struct fail *ret_fail);

/* Copies a file of the user's to where installers can read it, because their uid may be unable to
 * reach it. Must follow scratch_add_installer(). *ret_path: a path in the scratch directory, the
 * same each time. 0 or -errno */
int scratch_copy_file(struct box_scratch *scratch, enum scratch_copy copy, const char *from,
                      const char **ret_path, struct fail *ret_fail);

/* Whether any user may follow path and read there. */
bool uid_pool_all_reach(const char *path);

/* --- the supervisor --- */

/* Must be called before the sandbox is launched. */
void supervisor_prepare(void);
/* Ends the sandbox. Returns whether none of its processes is left. */
bool supervisor_reap(struct box *box);
