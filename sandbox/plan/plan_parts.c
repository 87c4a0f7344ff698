#include "sandbox/plan/plan_parts.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *plan_keep(struct plan *plan, const char *fmt, ...)
{
    char **strings = realloc(plan->strings, (plan->string_count + 1) * sizeof *strings);
    if (!strings) {
        return NULL;
    }
    plan->strings = strings;
    va_list args;
    va_start(args, fmt);
    int size = vasprintf(&strings[plan->string_count], fmt, args);
    va_end(args);
    return size < 0 ? NULL : strings[plan->string_count++];
}

struct plan_step *plan_add(struct plan *plan, enum plan_kind kind, const char *source,
                           const char *target)
{
    assert(plan->step_count < PLAN_STEPS);
    struct plan_step *step = &plan->steps[plan->step_count++];
    *step = (struct plan_step){.kind = kind, .source = source, .target = target, .mode = 0755};
    return step;
}

void plan_allow(struct plan *plan, const char *path, uint64_t allowed)
{
    assert(plan->rule_count < PLAN_RULES);
    plan->rules[plan->rule_count++] = (struct landlock_rule){path, allowed};
}

void plan_add_locks(struct plan *plan, bool trusted)
{
    plan_add(plan, PLAN_NO_NAMESPACES, NULL, NULL)->optional = trusted;
    plan_add(plan, PLAN_DESCRIPTORS, NULL, NULL);
    plan_add(plan, PLAN_CAPABILITIES, NULL, NULL);
    /* After the ids and capabilities are final: changing them clears the signal, prctl(2). */
    plan_add(plan, PLAN_DEATH_SIGNAL, NULL, NULL);
}

/* Whether there was memory for everything necessary. */
static bool is_whole(const struct plan *plan)
{
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        bool needs_target = step->kind == PLAN_DIRECTORY || step->kind == PLAN_FILE;
        if ((needs_target && !step->target) || (step->kind == PLAN_OPEN_TREE && !step->source)) {
            return false;
        }
    }
    return true;
}

/* Whether a component of the path is "..", or there is none. */
static bool is_odd(const char *path)
{
    bool any = false;
    for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
        size_t size = strcspn(path, "/");
        if (size == 2 && strncmp(path, "..", 2) == 0) {
            return true;
        }
        any = any || size > 1 || *path != '.';
        path += size;
    }
    return !any;
}

int plan_check(const struct plan *plan, struct fail *ret_fail)
{
    if (!is_whole(plan)) {
        return fail_set(ret_fail, ENOMEM, "the sandbox's plan");
    }
    for (unsigned i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        if ((step->kind == PLAN_MOVE || step->kind == PLAN_SUBTREE) && step->target &&
            is_odd(step->target)) {
            return fail_refuse(ret_fail, EPERM, "the sandbox's plan has a mount at %.300s",
                               step->target);
        }
    }
    return 0;
}
