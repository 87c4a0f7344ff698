#pragma once
#include <linux/limits.h>

/* How a path of the host lies to the workspace, where code of the sandbox makes, changes and replaces
 * what it likes: the server must follow no name there that it has not made safe. */

enum overlap {
    OVERLAP_NONE,
    OVERLAP_INSIDE, /* no link on the way: rest is the path below the workspace, empty for itself */
    OVERLAP_THROUGH /* it enters the workspace, and a link there leads it on */
};

/* What is left of path behind folder, or NULL. Looks at the text alone. */
const char *overlap_behind(const char *path, const char *folder);

/* path: of something that is there. workspace: NULL, or a folder. Both absolute. */
enum overlap overlap_of(const char *path, const char *workspace, char ret_rest[PATH_MAX]);

/* The same for the folder that path is in, whatever path itself is. */
enum overlap overlap_of_parent(const char *path, const char *workspace, char ret_rest[PATH_MAX]);
