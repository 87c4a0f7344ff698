#pragma once
#include <linux/limits.h>
#include <stdbool.h>

/* Whether a host path passes through a directory in which code can make, change and replace any
 * entry: the server must not follow a name there unless the name has been made safe. */

enum overlap {
    OVERLAP_NONE,
    /* No symlink on the way: rest is the path below the directory, "" for the directory itself. */
    OVERLAP_INSIDE,
    OVERLAP_THROUGH, /* enters the directory, and a symlink or ".." there leads on */
};

/* Follows path name by name through all symlinks, as path_resolution(7) does. Identifies dir by
 * device and inode, so under every name and bind mount. path: need not exist; a relative one starts
 * at the current directory. dir: NULL, or a directory. A path that cannot be followed to its end
 * (too long, too many symlinks) is OVERLAP_THROUGH once it has entered dir. */
enum overlap overlap_of(const char *path, const char *dir, char ret_rest[PATH_MAX]);

/* The same for path's parent directory, whatever path itself is. */
enum overlap overlap_of_parent(const char *path, const char *dir, char ret_rest[PATH_MAX]);

/* Whether path overlaps with dir in either way. */
bool overlap_enters(const char *path, const char *dir);
/* Whether one of two directories enters the other. NULL is none. */
bool overlap_between(const char *one, const char *other);
