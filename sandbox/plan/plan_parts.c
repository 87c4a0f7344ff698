#include "sandbox/plan/plan_parts.h"

#include <assert.h>
#include <errno.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/policy/made_filters.h"

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

struct plan_step *plan_add_file(struct plan *plan, const char *target, const void *content,
                                size_t size)
{
    struct plan_step *step = plan_add(plan, PLAN_FILE, NULL, target);
    step->content = content;
    step->content_size = size;
    step->mode = 0444;
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

/* Plans with an empty root, for processes that need no files. */

/* A root that holds only /dev/null. */
static void add_empty_root(struct plan *plan, const char *hostname)
{
    static const char null[] = "/dev/null";
    plan->tree_count = 1;
    plan_add(plan, PLAN_OPEN_TREE, null, NULL);
    plan_add(plan, PLAN_IDENTITY, NULL, NULL);
    plan_add(plan, PLAN_SESSION, NULL, NULL);
    plan_add(plan, PLAN_HOSTNAME, hostname, NULL)->optional = true;
    plan_add(plan, PLAN_PRIVATE, NULL, NULL);
    plan_add(plan, PLAN_ROOT, NULL, NULL)->data = "size=64k,nr_inodes=16,mode=0755";
    plan_add(plan, PLAN_DIRECTORY, NULL, "/work"); /* PLAN_PIVOT changes to it */
    plan_add(plan, PLAN_MOVE, null, null)->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    plan_add(plan, PLAN_READ_ONLY_ROOT, NULL, NULL);
    plan_add(plan, PLAN_PIVOT, NULL, NULL);
}

void plan_build_namespace_check(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){.namespaces = PLAN_NAMESPACES | CLONE_NEWNET};
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, BOX_HOSTNAME);
    plan_add(plan, PLAN_GROUP, NULL, NULL);
    plan_add(plan, PLAN_CGROUP_NAMESPACE, NULL, NULL);
}

void plan_build_proxy(const struct host_facts *facts, struct plan *plan)
{
    *plan = (struct plan){};
    plan->namespaces = PLAN_NAMESPACES; /* the proxy uses the host's network */
    plan_choose_ids(plan, facts, /* installer= */ false);
    add_empty_root(plan, "egress");
    plan_add_locks(plan, /* trusted= */ true);
    plan_add(plan, PLAN_EXECUTE, "sandpiper-proxy", NULL);
}

/* The seccomp programs of a plan. The process compiles each once. */

int plan_build_init_filter(struct plan *plan, struct fail *ret_fail)
{
    static struct filter_program kept;
    if (plan->level == BOX_CONTAINER) {
        /* The supervisor has no filter: it starts the processes that notify it, and has no more
         * rights than its guest. */
        return 0;
    }
    kept = kept.program ? kept : made_filters[MADE_INIT];
    int r = kept.program ? 0 : filter_build_init(&kept, ret_fail);
    plan->filter_init = kept;
    return r;
}

int plan_compile_full(struct plan *plan, struct fail *ret_fail)
{
    bool landlock = plan->landlock_abi >= LANDLOCK_ABI_LEAST;
    bool scopes = plan->landlock_abi >= LANDLOCK_ABI_SCOPES;
    const struct filter_asks asks = {.signals = !scopes, .writes = plan->asks_of_writes};
    int r = asks.signals || asks.writes ? filter_build_asks(&asks, &plan->filter_notified, ret_fail)
                                        : 0;
    plan->filter_arguments = made_filters[landlock ? MADE_WITH_LANDLOCK : MADE_ARGUMENTS];
    plan->filter_names = made_filters[MADE_NAMES];
    if (r == 0 && !plan->filter_names.program) {
        r = filter_build_arguments(landlock, &plan->filter_arguments, ret_fail);
        r = r ? r : filter_build_names(&plan->filter_names, ret_fail);
    }
    return r;
}

int plan_build_guest_filters(struct plan *plan, plan_compile_fn compile, struct fail *ret_fail)
{
    static struct {
        struct filter_program notified;
        struct filter_program arguments;
        struct filter_program names;
    } kept[6]; /* by everything that they depend on */
    typeof(*kept) *mine =
        &kept[(plan->level == BOX_CONTAINER ? 1 + plan->egress : 0) * 2 + plan->asks_of_writes];
    if (!mine->names.program) {
        int r = compile(plan, ret_fail);
        if (r < 0) {
            return r;
        }
        mine->notified = plan->filter_notified;
        mine->arguments = plan->filter_arguments;
        mine->names = plan->filter_names;
    }
    plan->filter_notified = mine->notified;
    plan->filter_arguments = mine->arguments;
    plan->filter_names = mine->names;
    return 0;
}

enum box_isolation level_choose(enum box_isolation requested, bool namespaces)
{
    if (requested != BOX_ISOLATION_BEST) {
        return requested;
    }
    return namespaces ? BOX_ISOLATION_AUTO : BOX_ISOLATION_CONTAINER;
}

enum box_level level_expected(enum box_isolation requested)
{
    return requested == BOX_ISOLATION_CONTAINER ? BOX_CONTAINER : BOX_FULL;
}

enum box_level level_found(enum box_level expected, bool has_proc)
{
    return expected == BOX_FULL && !has_proc ? BOX_FULL_WITHOUT_PROC : expected;
}

bool level_spares_proc(enum box_isolation requested)
{
    return requested == BOX_ISOLATION_AUTO;
}
