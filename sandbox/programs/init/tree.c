/* Removing a tree that hostile code has made.
 *
 * A tree of thousands of folders in folders must not cost a descriptor or a call frame a level, and a way
 * back by ".." could be led astray by who moves folders meanwhile. So nothing goes down: the
 * folders in a folder are moved up to the top, each once, under names of ours, until all are flat.
 * Every call is relative to a descriptor of a folder that was opened without following links. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/init/tree.h"

enum { FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Gives a folder back the modes that its owner needs; by itself, because chmod follows links. */
static void open_up(int parent_fd, const char *name)
{
    char path[32];
    struct stat st;
    int fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU) {
        (void)chmod(path, S_IRWXU);
    }
    (void)close(fd);
}

static DIR *open_folder(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, FOLDER);
    if (fd < 0 && errno == EACCES) {
        open_up(parent_fd, name);
        fd = openat(parent_fd, name, FOLDER);
    }
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) {
        (void)close(fd);
    }
    return dir;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Moves a folder to the top. Its ".." changes, for which it must be writable itself. */
static bool lift(int folder_fd, const char *name, int top_fd)
{
    static unsigned long last;
    for (unsigned tries = 0; tries < 100; tries++) {
        char lifted[32];
        (void)snprintf(lifted, sizeof lifted, ".lifted-%lu", ++last);
        if (renameat(folder_fd, name, top_fd, lifted) == 0) {
            return true;
        }
        if (errno == EACCES) {
            open_up(folder_fd, name);
        } else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
            return false;
        }
    }
    return false;
}

/* Removes what is in a folder of the top: files at once, folders by lifting them. Returns whether
 * anything could be done. */
static bool empty(DIR *dir, int top_fd)
{
    bool any = false;
    const struct dirent *entry = NULL;
    while ((entry = readdir(dir))) {
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 ||
            unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0 ||
            lift(dirfd(dir), entry->d_name, top_fd)) {
            any = true;
        }
    }
    return any;
}

/* One entry of the top. Returns whether it is nearer to its end. */
static bool reduce(int top_fd, const char *name)
{
    if (unlinkat(top_fd, name, 0) == 0 || unlinkat(top_fd, name, AT_REMOVEDIR) == 0) {
        return true;
    }
    open_up(top_fd, name); /* to read, to write and to search it */
    DIR *dir = open_folder(top_fd, name);
    if (!dir) {
        return false;
    }
    bool any = false;
    while (empty(dir, top_fd)) {
        any = true;
        rewinddir(dir);
    }
    (void)closedir(dir);
    return unlinkat(top_fd, name, AT_REMOVEDIR) == 0 || any;
}

bool tree_remove(int parent_fd, const char *name)
{
    open_up(parent_fd, name);
    DIR *top = open_folder(parent_fd, name);
    if (!top) {
        return unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT;
    }
    for (bool any = true; any;) {
        const struct dirent *entry = NULL;
        any = false;
        rewinddir(top);
        while ((entry = readdir(top))) {
            any = (!is_dots(entry->d_name) && reduce(dirfd(top), entry->d_name)) || any;
        }
    }
    (void)closedir(top);
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}
