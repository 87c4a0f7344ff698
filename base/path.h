#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

/* The part of path behind directory, without slashes at its front: "" for directory itself. NULL:
 * path is not in it. Compares text only. */
const char *path_behind(const char *path, const char *directory);

/* Writes path as an absolute one without "." and "..", as if there were no symlinks; "" for "/".
 * Leaves out components that do not fit. */
void path_fold(const char *path, char out[LIMIT_PATH_BYTES]);

/* The last component of path, which points into it: all of it where there is no slash. */
const char *path_last(const char *path);

/* The bytes of path that are a directory which tools fill and can fill again (__pycache__,
 * node_modules); 0: it is in none. */
size_t path_cache_size(const char *path);

/* Removes the last component with the slash before it; returns whether there is one. */
bool path_cut_last(char *path);

/* Whether git takes a directory that has these names for a git directory, with hooks and a
 * configuration that it obeys: is_git_directory() in git's setup.c. */
bool git_is_directory(bool (*has)(const void *arg, const char *name), const void *arg);
/* The same of an opened directory; fd -1: no. A symlink counts, wherever it leads. */
bool git_is_directory_at(int fd);
