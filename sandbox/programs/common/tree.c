/* Removing a tree that hostile code has made.
 *
 * A tree of thousands of nested directories must not cost a descriptor or a call frame per level,
 * and whoever moves directories meanwhile could misdirect a return by "..". So nothing descends:
 * subdirectories are moved up to the top, each once, under names of our own, until all are flat.
 * Every call is relative to a descriptor of a directory that was opened without following
 * symlinks. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/tree.h"

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Gives a directory the modes that its owner needs; a separate function, because chmod follows
 * symlinks. */
static void open_up(int parent_fd, const char *name)
{
    char path[32];
    struct stat st;
    defer_close int fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU) {
        (void)chmod(path, S_IRWXU);
    }
}

static DIR *open_directory(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, DIRECTORY);
    if (fd < 0 && errno == EACCES) {
        open_up(parent_fd, name);
        fd = openat(parent_fd, name, DIRECTORY);
    }
    return fd_directory(fd);
}

/* Moves a directory to the top. It must itself be writable, because its ".." changes. */
static bool lift(int directory_fd, const char *name, int top_fd)
{
    static unsigned long last;
    for (unsigned tries = 0; tries < 100; tries++) {
        char lifted[32];
        (void)snprintf(lifted, sizeof lifted, ".lifted-%lu", ++last);
        if (renameat(directory_fd, name, top_fd, lifted) == 0) {
            return true;
        }
        if (errno == EACCES) {
            open_up(directory_fd, name);
        } else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
            return false;
        }
    }
    return false;
}

/* Removes what is in a top-level directory: files at once, directories by lifting them. Returns
 * whether it made progress. */
static bool empty(DIR *dir, int top_fd)
{
    bool any = false;
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        if (unlinkat(dirfd(dir), name, 0) == 0 || unlinkat(dirfd(dir), name, AT_REMOVEDIR) == 0 ||
            lift(dirfd(dir), name, top_fd)) {
            any = true;
        }
    }
    return any;
}

/* Handles one entry of the top. Returns whether it made progress. */
static bool reduce(int top_fd, const char *name)
{
    if (unlinkat(top_fd, name, 0) == 0 || unlinkat(top_fd, name, AT_REMOVEDIR) == 0) {
        return true;
    }
    open_up(top_fd, name); /* to read, write and search it */
    defer_closedir DIR *dir = open_directory(top_fd, name);
    if (!dir) {
        return false;
    }
    bool any = false;
    while (empty(dir, top_fd)) {
        any = true;
        rewinddir(dir);
    }
    return unlinkat(top_fd, name, AT_REMOVEDIR) == 0 || any;
}

bool tree_remove(int parent_fd, const char *name)
{
    open_up(parent_fd, name);
    defer_closedir DIR *top = open_directory(parent_fd, name);
    if (!top) {
        return unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT;
    }
    for (bool any = true; any;) {
        any = false;
        rewinddir(top);
        for (const char *found = NULL; (found = fd_next_name(top));) {
            any = reduce(dirfd(top), found) || any;
        }
    }
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}
