#pragma once
#include <stdbool.h>

/* Whether git takes a directory that has these names for a git directory, with hooks and a
 * configuration that it obeys: is_git_directory() in git's setup.c. */
bool git_is_directory(bool (*has)(const void *arg, const char *name), const void *arg);
/* The same of an opened directory; fd -1: no. A symlink counts, wherever it leads. */
bool git_is_directory_at(int fd);
