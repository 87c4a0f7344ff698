#include "base/path.h"

#include <string.h>

const char *path_behind(const char *path, const char *directory)
{
    size_t size = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
    bool below = strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == '\0');
    return below ? path + size + strspn(path + size, "/") : NULL;
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
