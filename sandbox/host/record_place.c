/* Whether --record can be where the user says: see mounts.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "sandbox/host/cache_path.h"
#include "sandbox/host/mounts.h"
#include "sandbox/host/python.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/overlap.h"

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
