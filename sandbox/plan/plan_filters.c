/* The seccomp programs of a plan. The process compiles each once. */
#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "sandbox/policy/landlock.h"

int plan_build_init_filter(struct plan *plan, struct fail *ret_fail)
{
    static struct filter_program kept;
    if (plan->level == BOX_CONTAINER) {
        /* The supervisor has no filter: it starts the processes that notify it, and has no more
         * rights than its guest. */
        return 0;
    }
    int r = kept.program ? 0 : filter_build_init(&kept, ret_fail);
    plan->filter_init = kept;
    return r;
}

int plan_compile_full(struct plan *plan, struct fail *ret_fail)
{
    bool landlock = plan->landlock_abi >= LANDLOCK_ABI_LEAST;
    bool scopes = plan->landlock_abi >= LANDLOCK_ABI_SCOPES;
    int r = scopes ? 0 : filter_build_signals(&plan->filter_notified, ret_fail);
    r = r ? r : filter_build_arguments(landlock, &plan->filter_arguments, ret_fail);
    return r ? r : filter_build_names(&plan->filter_names, ret_fail);
}

int plan_build_guest_filters(struct plan *plan, plan_compile_fn compile, struct fail *ret_fail)
{
    static struct {
        struct filter_program notified;
        struct filter_program arguments;
        struct filter_program names;
    } kept[3]; /* by everything that they depend on */
    typeof(*kept) *mine = &kept[plan->level == BOX_CONTAINER ? 1 + plan->egress : 0];
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
