#include "sandbox/plan/plan_parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
    /* After the ids and capabilities are final: changing them clears it, prctl(2). */
    plan_add(plan, PLAN_DEATH_SIGNAL, NULL, NULL);
}
