/* For a build without the isolation level `container` (-Dunprivileged=false): every sandbox has
 * namespaces, and no spec has a scratch directory. */
#include <errno.h>
#include <stddef.h>

#include "sandbox/scratch.h"
#include "sandbox/unprivileged/unprivileged.h"

plan_add_fn level_plan(const struct box_spec *)
{
    return plan_add_full;
}

plan_compile_fn level_filters(const struct plan *)
{
    return plan_compile_full;
}

void level_installer_ids(const struct box_spec *, const struct host_facts *facts, uid_t *ret_uid,
                         gid_t *ret_gid)
{
    plan_installer_ids(facts, ret_uid, ret_gid);
}

void level_plan_proxy(const struct box_scratch *, const struct host_facts *facts, struct plan *plan)
{
    plan_build_proxy(facts, plan);
}

int box_scratch_open(struct box_spec *spec, struct box_scratch **ret_scratch, struct fail *ret_fail)
{
    spec->scratch = NULL;
    *ret_scratch = NULL;
    if (spec->isolation == BOX_ISOLATION_CONTAINER) {
        return fail_refuse(ret_fail, ENOTSUP, "this build has no isolation level container");
    }
    spec->isolation = spec->isolation == BOX_ISOLATION_BEST ? BOX_ISOLATION_AUTO : spec->isolation;
    return 0;
}

void box_scratch_close(struct box_scratch *)
{
}

int scratch_prepare(struct box_scratch *, uid_t, gid_t, struct fail *)
{
    return -ENOTSUP;
}

int scratch_add_installer(struct box_scratch *, const struct embedded *, const struct embedded *,
                          struct box_paths *, struct fail *)
{
    return -ENOTSUP;
}

int scratch_copy_file(struct box_scratch *, enum scratch_copy, const char *, const char **,
                      struct fail *)
{
    return -ENOTSUP;
}

bool uid_pool_all_reach(const char *)
{
    return false;
}

void supervisor_prepare(void)
{
}

bool supervisor_reap(struct box *)
{
    return false;
}
