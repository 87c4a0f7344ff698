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
