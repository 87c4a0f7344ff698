#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/host/python_internal.h"
#include "sandbox/trust/directory.h"
#include "sandbox/trust/trust.h"

int known_check_size(const char *directory, struct fail *ret_fail)
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
        is_home                                 ? "your home directory"
        : strstr(why.text, "whole file system") ? "the whole file system"
                                                : "a parent of your home directory");
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

bool known_is_prefix(const struct box_spec *spec, const char *directory)
{
    char real[PATH_MAX];
    return realpath(directory, real) && (is_of_system(real) || is_of_conda(real) ||
                                         is_of_tool(spec, real) || is_of_path(spec, real));
}
