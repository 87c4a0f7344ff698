/* Refuses an interpreter that code could change. */
#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/host/python.h"
#include "sandbox/host/python_internal.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"

/* Refuses what is more than an interpreter, whoever has named it: the root directory, a home
 * directory and its parents. 0 or -EPERM with ret_fail */
static int known_check_size(const char *directory, struct fail *ret_fail)
{
    struct fail why = {};
    bool is_home = directory_is_home(directory);
    if (!is_home && directory_check("", directory, /* writable= */ false, &why) == 0) {
        return 0;
    }
    return fail_refuse(
        ret_fail, EPERM,
        "the interpreter's directory %.300s is %s, so code could read too much: name "
        "another interpreter with --python PATH",
        directory,
        is_home                                 ? "the home directory"
        : strstr(why.text, "whole file system") ? "the whole file system"
                                                : "a parent of the home directory");
}

/* Where a system's packages install whole interpreters. Ordinary users cannot write there. */
static bool is_of_system(const char *real)
{
    static const char *const directories[] = {"/usr", "/opt", "/nix/store", "/gnu/store", "/snap"};
    bool found = false;
    for (unsigned i = 0; i < sizeof directories / sizeof *directories && !found; i++) {
        const char *rest = path_behind(real, directories[i]);
        found = rest && (*rest || i == 0);
    }
    return found;
}

/* Whether the symlink or program at path resolves to real's interpreter, and code can write nowhere
 * on the way. */
static bool leads_to(const struct box_spec *spec, const char *path, const char *real)
{
    char end[PATH_MAX];
    if (access(path, X_OK) < 0 || !realpath(path, end) || trust_meets(spec, path).path ||
        shim_is_script(end)) {
        return false;
    }
    const char *rest = path_behind(end, real);
    return rest && strncmp(rest, "bin/", 4) == 0 && !strchr(rest + 4, '/');
}

static bool is_of_path(const struct box_spec *spec, const char *real)
{
    enum { OLDEST = 9, NEWEST = 20 }; /* python3.N */
    char list[4 * PATH_MAX];
    char path[PATH_MAX];
    char *state = NULL;
    trust_path(spec, list, sizeof list);
    for (char *dir = strtok_r(list, ":", &state); dir; dir = strtok_r(NULL, ":", &state)) {
        for (int minor = OLDEST - 1; minor < NEWEST; minor++) {
            int size = minor < OLDEST ? snprintf(path, sizeof path, "%s/python3", dir)
                                      : snprintf(path, sizeof path, "%s/python3.%d", dir, minor);
            if (size < PATH_MAX && leads_to(spec, path, real)) {
                return true;
            }
        }
    }
    return false;
}

/* Tools that keep each version in its own directory. A variable can move their root. */
static bool is_of_tool(const struct box_spec *spec, const char *real)
{
    static const struct {
        const char *variable;
        const char *usual; /* below the home directory */
        const char *versions;
    } tools[] = {
        {"PYENV_ROOT", ".pyenv", "versions"},
        {"ASDF_DATA_DIR", ".asdf", "installs/python"},
        {"MISE_DATA_DIR", ".local/share/mise", "installs/python"},
        {"UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "."},
    };
    const char *home = getenv("HOME");
    const char *name = strrchr(real, '/');
    char path[PATH_MAX];
    char versions[PATH_MAX];
    for (unsigned i = 0; i < sizeof tools / sizeof *tools; i++) {
        const char *moved = getenv(tools[i].variable);
        int size = moved && moved[0] == '/'
                       ? snprintf(path, sizeof path, "%s/%s", moved, tools[i].versions)
                       : snprintf(path, sizeof path, "%s/%s/%s", home ? home : "", tools[i].usual,
                                  tools[i].versions);
        if (size < PATH_MAX && realpath(path, versions) && !trust_meets(spec, path).path &&
            strlen(versions) == (size_t)(name - real) &&
            memcmp(versions, real, strlen(versions)) == 0) {
            return true;
        }
    }
    return false;
}

/* conda's own list of the environments that it has made. */
static bool is_of_conda(const char *real)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/conda-meta/history", real) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* Whether directory, which code could have named, is known as an interpreter's independently of
 * code: as one of the system, of the trusted part of PATH, of a known tool's versions, or of conda.
 * Reads no file that code can write. */
static bool known_is_prefix(const struct box_spec *spec, const char *directory)
{
    char real[PATH_MAX];
    return realpath(directory, real) && (is_of_system(real) || is_of_conda(real) ||
                                         is_of_tool(spec, real) || is_of_path(spec, real));
}

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
