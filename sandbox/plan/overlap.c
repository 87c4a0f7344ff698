#include "sandbox/plan/overlap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *overlap_behind(const char *path, const char *folder)
{
    size_t size = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    bool below = strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
    return below ? path + size + strspn(path + size, "/") : NULL;
}

/* Of a path that enters the workspace at its first size bytes, which lead to entry. */
static enum overlap judge(const char *path, size_t size, const char *entry, const char *workspace,
                          char ret_rest[PATH_MAX])
{
    char straight[PATH_MAX];
    char real[PATH_MAX];
    const char *rest = path + size + strspn(path + size, "/");
    int length = snprintf(straight, sizeof straight, "%s%s%s", entry, *rest ? "/" : "", rest);
    if (length >= PATH_MAX || !realpath(path, real) || strcmp(real, straight) != 0) {
        return OVERLAP_THROUGH;
    }
    (void)snprintf(ret_rest, PATH_MAX, "%s", overlap_behind(real, workspace));
    return OVERLAP_INSIDE;
}

enum overlap overlap_of(const char *path, const char *workspace, char ret_rest[PATH_MAX])
{
    char root[PATH_MAX];
    char part[PATH_MAX];
    char real[PATH_MAX];
    ret_rest[0] = '\0';
    if (!workspace || !realpath(workspace, root)) {
        return OVERLAP_NONE;
    }
    for (size_t size = 1; size <= strlen(path) && size < PATH_MAX; size++) {
        if (path[size] != '/' && path[size] != '\0') {
            continue;
        }
        (void)snprintf(part, sizeof part, "%.*s", (int)size, path);
        if (!realpath(part, real)) {
            return OVERLAP_NONE; /* not there */
        }
        if (overlap_behind(real, root)) {
            return judge(path, size, real, root, ret_rest);
        }
    }
    return OVERLAP_NONE;
}

enum overlap overlap_of_parent(const char *path, const char *workspace, char ret_rest[PATH_MAX])
{
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) {
        slash[slash == folder] = '\0';
    }
    return overlap_of(folder, workspace, ret_rest);
}
