#pragma once
#include <stdbool.h>

/* Removes name in parent_fd with all that is in it, however deep, whatever its modes are, and while
 * others may still be writing to it: no path is followed and no link. Returns whether it is gone. */
bool tree_remove(int parent_fd, const char *name);
