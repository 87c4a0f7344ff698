#pragma once
#include <linux/limits.h>

/* How a path of the host lies to a directory in which code of the sandbox makes, changes and replaces
 * what it likes: the server must follow no name there that it has not made safe. */

enum overlap {
    OVERLAP_NONE,
    OVERLAP_INSIDE, /* no symlink on the way: rest is the path below the directory, empty for itself */
    OVERLAP_THROUGH, /* it enters the directory, and a symlink or ".." there leads it on */
};

/* What is left of path behind dir, or NULL. Looks at the text alone. */
const char *overlap_behind(const char *path, const char *dir);

/* Follows path name by name through all its symlinks, as path_resolution(7) does, and knows dir by its
 * device and inode, so under each name and bind mount. path: need not exist; a relative one begins at
 * the current directory. dir: NULL, or a directory. What cannot be followed to its end (too long, too
 * many symlinks) is OVERLAP_THROUGH once it has entered dir. */
enum overlap overlap_of(const char *path, const char *dir, char ret_rest[PATH_MAX]);

/* The same for the directory that path is in, whatever path itself is. */
enum overlap overlap_of_parent(const char *path, const char *dir, char ret_rest[PATH_MAX]);
