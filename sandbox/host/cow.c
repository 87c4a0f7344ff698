/* Whether --cow and --cow-store can be what the user means: see mounts.h. */
#include <errno.h>

#include "sandbox/host/idmap.h"
#include "sandbox/host/mounts.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/overlap.h"

int box_cow_resolve(struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    if (spec->cow_store && !spec->cow) {
        return fail_refuse(ret_fail, EINVAL, "--cow-store keeps the changes of --cow: add --cow");
    }
    if (!spec->cow) {
        return 0;
    }
    if (!spec->workspace) {
        return fail_refuse(
            ret_fail, EINVAL,
            "--cow keeps the directory of --workspace unchanged: add --workspace DIR");
    }
    if (spec->isolation == BOX_ISOLATION_CONTAINER) {
        return fail_refuse(ret_fail, EINVAL, COW_NEEDS_NAMESPACES);
    }
    if (!spec->cow_store) {
        return 0;
    }
    int r = directory_find_new("--cow-store", spec->cow_store, path, ret_fail);
    if (r < 0) {
        return r;
    }
    spec->cow_store = path;
    if (overlap_between(path, spec->workspace)) {
        return fail_refuse(
            ret_fail, EPERM,
            "--cow-store %.300s and the workspace %.300s overlap: name a directory outside "
            "of the workspace",
            path, spec->workspace);
    }
    return directory_check("--cow-store", path, /* writable= */ true, ret_fail);
}

bool box_cow_may_leave_out(void)
{
    static const cap_value_t needed[] = {CAP_SYS_ADMIN};
    return idmap_has_capabilities(needed, 1);
}
