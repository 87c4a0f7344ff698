#pragma once
#include "sandbox/plan.h"

/* What plans are made of: shared by the files that build one. */

/* Keeps text as long as the plan lives. NULL without memory: plan_build() looks for that at its end. */
__attribute__((format(printf, 2, 3))) const char *plan_keep(struct plan *plan, const char *fmt,
                                                            ...);

/* Appends a step with mode 0755; strings are borrowed as long as the plan. */
struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target);

/* Appends a Landlock rule: allowed, LANDLOCK_FS_*, below path. */
void plan_allow(struct plan *plan, const char *path, uint64_t allowed);

/* The guest's: argv and envp. */
void plan_set_arguments(struct plan *plan, const struct box_spec *spec, const struct python *python,
                        const struct plan_content *content);
void plan_set_environment(struct plan *plan, const struct box_spec *spec,
                          const struct python *python, const struct plan_content *content);
