#include "base/git.h"

#include <fcntl.h>
#include <sys/stat.h>

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
