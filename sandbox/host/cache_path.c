#include "sandbox/host/cache_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/host/mounts.h"
#include "sandbox/host/python.h"
#include "sandbox/scratch.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/trust.h"

/* Whether sandboxes see the package directories at the host's paths and with another uid. Then the
 * home directory is unsuitable, and the directories let others pass through. */
static bool cache_is_shared_by_path(const struct box_spec *spec)
{
    return spec->scratch && spec->scratch->ids.guest != geteuid();
}

mode_t cache_mode(const struct box_spec *spec)
{
    return cache_is_shared_by_path(spec) ? 0711 : 0700;
}

int cache_place(const struct box_spec *spec, char parent[PATH_MAX], const char **ret_name,
                struct fail *ret_fail)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int size = -1;
    *ret_name = "sandpiper";
    if (spec->cache) {
        size = snprintf(parent, PATH_MAX, "%s", spec->cache);
        while (size > 1 && size < PATH_MAX && parent[size - 1] == '/') {
            parent[--size] = '\0';
        }
        char *slash = size < PATH_MAX ? strrchr(parent, '/') : NULL;
        if (!slash || !slash[1]) {
            return fail_refuse(ret_fail, EPERM, "%s is not an absolute path", spec->cache);
        }
        *ret_name = spec->cache + (slash + 1 - parent);
        slash[slash == parent] = '\0';
    } else if (cache_is_shared_by_path(spec)) {
        size = snprintf(parent, PATH_MAX, "%s", spec->scratch->path);
        *ret_name = "packages";
    } else if (xdg && xdg[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s", xdg);
    } else if (home && home[0] == '/') {
        size = snprintf(parent, PATH_MAX, "%s/.cache", home);
    } else {
        return fail_refuse(ret_fail, EPERM, "HOME is not set");
    }
    return size >= 0 && size < PATH_MAX ? 0
                                        : fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
}

int cache_path(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail)
{
    char parent[PATH_MAX] = "";
    const char *name = NULL;
    int r = cache_place(spec, parent, &name, ret_fail);
    if (r == 0 && snprintf(path, PATH_MAX, "%s/%s", parent[1] ? parent : "", name) >= PATH_MAX) {
        r = fail_set(ret_fail, ENAMETOOLONG, "the cache directory");
    }
    return r;
}

/* Whether --record can be where the user says: see mounts.h. */

/* Refuses path where it and a directory that code can see lie in one another. seen: NULL: none. */
static int check(const char *path, const char *seen, struct fail *ret_fail)
{
    return overlap_between(path, seen)
               ? fail_refuse(ret_fail, EPERM,
                             "--record %.300s and %.300s, which code can see, overlap: name a "
                             "directory outside of it",
                             path, seen)
               : 0;
}

/* What the interpreter needs is shown, too. One that cannot be found runs no code. */
static int check_python(const struct box_spec *spec, const char *path, struct fail *ret_fail)
{
    struct fail none = {};
    defer_free struct python *python = malloc(sizeof *python);
    if (!python) {
        return fail_set(ret_fail, ENOMEM, "--record");
    }
    unsigned count = python_expect(spec, python, &none) == 0 ? python->directory_count : 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < count; i++) {
        r = check(path, python->directories[i], ret_fail);
    }
    return r;
}

int box_record_resolve(const struct box_spec *spec, const char *dir, char path[PATH_MAX],
                       struct fail *ret_fail)
{
    static const char *const system[] = {"/usr", "/etc", "/nix/store"};
    char cache[PATH_MAX];
    int r = directory_find_new("--record", dir, path, ret_fail);
    r = r ? r : directory_check("--record", path, /* writable= */ true, ret_fail);
    for (unsigned i = 0; r == 0 && i < sizeof system / sizeof *system; i++) {
        r = check(path, system[i], ret_fail);
    }
    r = r ? r : check(path, spec->workspace, ret_fail);
    r = r ? r : check(path, spec->cow_store, ret_fail);
    for (unsigned i = 0; r == 0 && i < spec->mount_count; i++) {
        r = check(path, spec->mounts[i].path, ret_fail);
    }
    if (r == 0 && cache_path(spec, cache, NULL) == 0) {
        r = check(path, cache, ret_fail);
    }
    return r ? r : check_python(spec, path, ret_fail);
}
