#include "base/path.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

const char *path_behind(const char *path, const char *directory)
{
    size_t size = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
    bool below = strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
    return below ? path + size + strspn(path + size, "/") : NULL;
}

void path_fold(const char *path, char out[LIMIT_PATH_BYTES])
{
    size_t used = 0;
    while (*path) {
        path += strspn(path, "/");
        size_t size = strcspn(path, "/");
        if (size == 2 && memcmp(path, "..", 2) == 0) {
            while (used > 0 && out[--used] != '/') {
            }
        } else if (size > 0 && !(size == 1 && *path == '.') &&
                   used + size + 2 <= LIMIT_PATH_BYTES) {
            out[used++] = '/';
            memcpy(out + used, path, size);
            used += size;
        }
        path += size;
    }
    out[used] = '\0';
}

const char *path_last(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool path_cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) {
        *slash = '\0';
    }
    return slash != NULL;
}

size_t path_cache_size(const char *path)
{
    static const char *const caches[] = {
        "__pycache__", ".pytest_cache",      ".mypy_cache",  ".ruff_cache", ".hypothesis", ".tox",
        ".nox",        ".ipynb_checkpoints", "node_modules", ".venv",       "venv"};
    size_t size = 0;
    for (const char *at = path; *at && size == 0; at += *at == '/') {
        size_t length = strcspn(at, "/");
        for (unsigned i = 0; i < sizeof caches / sizeof *caches; i++) {
            if (strlen(caches[i]) == length && strncmp(at, caches[i], length) == 0) {
                size = (size_t)(at - path) + length;
            }
        }
        at += length;
    }
    return size;
}

bool git_is_directory(bool (*has)(const void *arg, const char *name), const void *arg)
{
    return has(arg, "HEAD") && (has(arg, "commondir") || (has(arg, "objects") && has(arg, "refs")));
}

static bool has_name(const void *arg, const char *name)
{
    struct stat st;
    return fstatat(*(const int *)arg, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool git_is_directory_at(int fd)
{
    return git_is_directory(has_name, &fd);
}
