/* Refuses an interpreter that code could change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/host/python.h"
#include "sandbox/host/python_internal.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

/* Whether the plan makes the interpreter's directories in this place read-only. */
static bool is_kept(const struct box_spec *spec, const struct trust_place *place)
{
    return place->workspace && !spec->scratch;
}

static int refuse(const char *path, const struct trust_place *place, struct fail *ret_fail)
{
    return trust_refuse("the interpreter", path, place,
                        place->workspace
                            ? "name another with --python PATH"
                            : "mount that directory read-only, name it with --workspace, or name "
                              "another interpreter with --python PATH",
                        ret_fail);
}

int python_check_name(const struct box_spec *spec, const char *path, bool in_directory,
                      struct fail *ret_fail)
{
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false; /* then so is what is mounted in it */
    unsigned count = trust_places(spec, places);
    for (unsigned i = 0; i < count; i++) {
        enum overlap overlap = overlap_of_parent(path, places[i].path, rest);
        if (overlap == OVERLAP_INSIDE && in_directory && is_kept(spec, &places[i])) {
            kept = true;
        } else if (overlap != OVERLAP_NONE && !(kept && places[i].alias)) {
            return refuse(path, &places[i], ret_fail);
        }
    }
    return 0;
}

/* Refuses a place from which code could write to the interpreter's modules and programs. In a
 * directory of packages, everything is a module. */
static int check_modules(const char *directory, const struct trust_place *place,
                         struct fail *ret_fail)
{
    static const char *const of_prefix[] = {"bin", "lib", "lib64", NULL};
    static const char *const of_packages[] = {".", NULL};
    const char *name = strrchr(directory, '/');
    bool packages = name && strcmp(name, "/site-packages") == 0;
    char path[PATH_MAX];
    for (const char *const *part = packages ? of_packages : of_prefix; *part; part++) {
        if (python_join(path, directory, *part) && overlap_enters(place->path, path)) {
            return refuse(directory, place, ret_fail);
        }
    }
    return 0;
}

static int check_directory(struct python *python, unsigned index, const struct box_spec *spec,
                           struct fail *ret_fail)
{
    const char *directory = python->directories[index];
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    bool kept = false;
    unsigned count = trust_places(spec, places);
    int checked = known_check_size(directory, ret_fail);
    if (checked < 0) {
        return checked;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct trust_place *place = &places[i];
        enum overlap overlap = overlap_of(directory, place->path, rest);
        int r = 0;
        if (kept && place->alias) {
            continue;
        }
        if (overlap == OVERLAP_NONE) {
            r = check_modules(directory, place, ret_fail);
        } else if (overlap == OVERLAP_INSIDE && rest[0] && is_kept(spec, place)) {
            (void)snprintf(python->inside[python->inside_count++], PATH_MAX, "%s", rest);
            kept = true;
        } else {
            r = refuse(directory, place, ret_fail);
        }
        if (r < 0) {
            return r;
        }
    }
    if (!kept && python->by_code[index] && !known_is_prefix(spec, directory)) {
        return fail_refuse(
            ret_fail, EPERM,
            "code can write to the file that names the interpreter's directory %.300s: "
            "name another interpreter with --python PATH",
            directory);
    }
    return 0;
}

int python_check_directories(struct python *python, const struct box_spec *spec,
                             struct fail *ret_fail)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < python->directory_count; i++) {
        r = check_directory(python, i, spec, ret_fail);
    }
    struct trust_place places[TRUST_PLACES];
    unsigned count = trust_places(spec, places);
    /* The system's own interpreter is not in the list. */
    for (unsigned i = 0; r == 0 && i < count; i++) {
        r = check_modules(python->prefix, &places[i], ret_fail);
    }
    return r;
}

bool python_is_named_by_code(const struct box_spec *spec, const char *path)
{
    struct trust_place places[TRUST_PLACES];
    char rest[PATH_MAX];
    unsigned count = trust_places(spec, places);
    bool found = false;
    for (unsigned i = 0; i < count && !found; i++) {
        found = overlap_of_parent(path, places[i].path, rest) != OVERLAP_NONE;
    }
    return found;
}
