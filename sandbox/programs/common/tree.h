#pragma once
#include <stdbool.h>

/* Removes name in parent_fd with all that is in it, however deep, whatever its modes, and while
 * others may still be writing to it. Follows no path and no symlink. Returns whether it is gone. */
bool tree_remove(int parent_fd, const char *name);
