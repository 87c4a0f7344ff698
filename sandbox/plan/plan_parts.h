#pragma once
#include <sched.h>

#include "sandbox/plan/plan.h"

/* Parts of plans, shared by the files that build one. */

/* Keeps text as long as the plan lives. Returns NULL without memory, which plan_build() checks at
 * its end. */
__attribute__((format(printf, 2, 3))) const char *plan_keep(struct plan *plan, const char *fmt,
                                                            ...);

/* Appends a step with mode 0755; strings are borrowed while the plan lives. */
struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target);

/* The same for a file that everybody may read. */
struct plan_step *plan_add_file(struct plan *plan, const char *target, const void *content,
                                size_t size);

/* The files of /sys; finds the plan's processors. */
void plan_add_machine(struct plan *plan, const struct box_spec *spec,
                      const struct host_facts *facts);

/* Appends a Landlock rule: allowed, LANDLOCK_FS_*, below path. */
void plan_allow(struct plan *plan, const char *path, uint64_t allowed);

/* The guest's envp and argv. */
void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct plan_content *content);
void plan_set_arguments(struct plan *plan, const struct box_spec *spec,
                        const struct plan_content *content);

/* Refuses a plan for which there was too little memory. Also refuses a mount on the new root
 * itself, which would be found at "/..", and one whose path leads elsewhere than its text says. 0,
 * -ENOMEM or -EPERM with ret_fail. */
[[nodiscard]] int plan_check(const struct plan *plan, struct fail *ret_fail);

/* Removes the means to make a sandbox once it is made. trusted: runs only our code, and continues
 * where an engine has made /proc/sys read-only. */
void plan_add_locks(struct plan *plan, bool trusted);

/* Which ids the sandbox's one user has outside: an ordinary user's own, for root ids that own
 * nothing. */
void plan_choose_ids(struct plan *plan, const struct host_facts *facts, bool installer);

/* The namespaces of each sandbox, besides the network's. */
#define PLAN_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* NULL ends the list. */
extern const char *const plan_etc_shared[];
