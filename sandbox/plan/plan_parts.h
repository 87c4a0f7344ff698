#pragma once
#include <sched.h>

#include "sandbox/plan/plan.h"

/* What plans are made of: shared by the files that build one. */

/* Keeps text as long as the plan lives. NULL without memory: plan_build() looks for that at its end. */
__attribute__((format(printf, 2, 3))) const char *plan_keep(struct plan *plan, const char *fmt,
                                                            ...);

/* Appends a step with mode 0755; strings are borrowed as long as the plan. */
struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target);

/* Appends a Landlock rule: allowed, LANDLOCK_FS_*, below path. */
void plan_allow(struct plan *plan, const char *path, uint64_t allowed);

/* Refuses a plan for which there was too little memory, and a mount whose place is the new root, over which it
 * would be found at "/..", or another one than its text says. 0, -ENOMEM or -EPERM with a sentence. */
[[nodiscard]] int plan_judge(const struct plan *plan, struct fail *ret_fail);

/* What takes away the means to make a box, once it is made. trusted: runs no code but ours, and goes on
 * where an engine has made /proc/sys read-only. */
void plan_add_locks(struct plan *plan, bool trusted);

/* Whose ids the box's one user has outside: an ordinary user's own, for root one that owns nothing. */
void plan_choose_ids(struct plan *plan, bool errand);

/* What each box is in, beside its network. */
#define PLAN_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* The guest's: argv and envp. */
void plan_set_arguments(struct plan *plan, const struct box_spec *spec, const struct python *python,
                        const struct plan_content *content);
void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct python *python, const struct plan_content *content);

/* Of /etc, what names no one and unlocks nothing; and the folders of programs and libraries beside /usr.
 * Each list ends with NULL. */
extern const char *const plan_etc_shared[];
extern const char *const plan_system_folders[];

/* plan_container.c: steps, rules and ids of a box without namespaces. 0 or -errno */
[[nodiscard]] int plan_build_container(struct plan *plan, const struct box_spec *spec,
                                       const struct python *python,
                                       const struct plan_content *content, struct fail *ret_fail);
void plan_build_container_egress(struct plan *plan, const struct ids *ids);
[[nodiscard]] int plan_build_container_filters(struct plan *plan, struct fail *ret_fail);
