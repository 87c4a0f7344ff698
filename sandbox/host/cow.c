/* Whether --cow and --cow-store can be what the user means: see mounts.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/host/idmap.h"
#include "sandbox/host/mounts.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/overlap.h"

static int refuse(struct fail *ret_fail, const char *text)
{
    (void)fail_set(ret_fail, 0, "%s", text);
    return -EINVAL;
}

/* The real path of the store's directory, whose last component need not exist. */
static int find_store(const char *dir, const struct directory_homes *homes, char path[PATH_MAX],
                      struct fail *ret_fail)
{
    static const char flag[] = "--cow-store";
    char parent[PATH_MAX];
    struct stat st;
    struct fail missing = {};
    size_t size = strlen(dir);
    while (size > 1 && dir[size - 1] == '/') {
        size--;
    }
    if (directory_find(flag, dir, homes, path, &st, &missing) == 0) {
        return 0;
    }
    (void)snprintf(parent, sizeof parent, "%.*s", (int)size, dir);
    char *slash = strrchr(parent, '/');
    const char *name = dir + (slash ? slash - parent + 1 : 0);
    if (slash) {
        slash[slash == parent] = '\0';
    }
    if (missing.code != ENOENT || size >= sizeof parent ||
        directory_find(flag, slash ? parent : ".", homes, path, &st, ret_fail) < 0) {
        *ret_fail = missing;
        return -EINVAL;
    }
    size_t used = strlen(path);
    int length = snprintf(path + used, PATH_MAX - used, "%s%.*s", used > 1 ? "/" : "",
                          (int)(size - (size_t)(name - dir)), name);
    return (size_t)length < PATH_MAX - used ? 0 : fail_set(ret_fail, ENAMETOOLONG, flag);
}

int box_cow_resolve(struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    struct directory_homes homes;
    char rest[PATH_MAX];
    if (spec->cow_store && !spec->cow) {
        return refuse(ret_fail, "--cow-store keeps the changes of --cow: add --cow");
    }
    if (!spec->cow) {
        return 0;
    }
    if (!spec->workspace) {
        return refuse(ret_fail,
                      "--cow keeps the directory of --workspace unchanged: add --workspace DIR");
    }
    if (spec->isolation == BOX_ISOLATION_CONTAINER) {
        return refuse(ret_fail, COW_NEEDS_NAMESPACES);
    }
    if (!spec->cow_store) {
        return 0;
    }
    directory_find_homes(&homes);
    int r = find_store(spec->cow_store, &homes, path, ret_fail);
    if (r < 0) {
        return r;
    }
    spec->cow_store = path;
    if (overlap_of(path, spec->workspace, rest) != OVERLAP_NONE ||
        overlap_of(spec->workspace, path, rest) != OVERLAP_NONE) {
        (void)fail_set(
            ret_fail, 0,
            "--cow-store %.300s and the workspace %.300s overlap: name a directory outside "
            "of the workspace",
            path, spec->workspace);
        return -EPERM;
    }
    return directory_check("--cow-store", path, /* writable= */ true, &homes, ret_fail);
}

bool box_cow_may_leave_out(void)
{
    static const cap_value_t needed[] = {CAP_SYS_ADMIN};
    return idmap_has_capabilities(needed, 1);
}
