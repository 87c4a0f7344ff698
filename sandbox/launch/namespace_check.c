#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/plan.h"

/* The child's report is one write, or none if every step succeeded. */
static bool plan_works(const struct plan *plan, struct fail *ret_fail)
{
    struct launched child = launch_none;
    struct child_setup setup = {.plan = plan, .init_fd = -1, .config_fd = -1, .program_fd = -1};
    struct fail fail = {};
    bool works = launch_start(&child, &setup, -1, "the sandbox", ret_fail) == 0;
    if (works) {
        /* There is no group to join. */
        (void)launch_go(&child, /* memory_fd= */ -1, "the sandbox", NULL);
        works = read(child.error_fd, &fail, sizeof fail) != (ssize_t)sizeof fail;
        *ret_fail = fail;
    }
    launch_end(&child);
    return works;
}

/* Whether a sandbox with namespaces can be made here. A child builds a root by the steps of a plan,
 * and exits. Blocks for some milliseconds. This does not replace the self-test, which every sandbox
 * runs itself. */
static bool namespace_check_passes(void)
{
    struct fail fail = {};
    struct host_facts facts;
    defer_free struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return false;
    }
    host_facts_read(NULL, &facts);
    plan_build_namespace_check(&facts, plan);
    bool works = plan_works(plan, &fail);
    if (!works) {
        char text[FAIL_TEXT + 128];
        log_info("sandbox", "no namespaces: %s", fail_describe(&fail, text, sizeof text));
    }
    plan_done(plan);
    return works;
}

void namespace_check_resolve(struct box_spec *spec)
{
    bool unresolved = spec->isolation == BOX_ISOLATION_BEST;
    spec->isolation = level_choose(spec->isolation, unresolved && namespace_check_passes());
}
