#pragma once
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

/* At a sandbox's start, finds protected names and hard-linked files in a directory that code will
 * be able to write to, and makes them read-only there. For the child between clone and execve: no
 * heap. */

/* A directory that code can write to. */
struct protect_root {
    const char *path; /* its path at this moment */
    const char *host; /* absolute; the path for programs outside */
};
enum { PROTECT_ROOTS = BOX_MOUNTS + 1 };

/* Walks the first of roots; symlinks and settings in it may lead to the others. open: bits of
 * --allow-write. mounts: false: only counts. Adds to found, except found->rows, which are those of
 * this directory. Skips names that vanish meanwhile, and follows symlinks only from a protected
 * name. 0, or -1 with errno: an existing name could not be made read-only. */
[[nodiscard]] int protect_directory(const struct protect_root *roots, unsigned root_count,
                                    uint64_t open, bool mounts, struct box_protected *found);

typedef void (*protect_find_fn)(void *arg, const char *path);
/* Reports, for the server, what would be read-only in a directory of the user's: protected names in
 * its top directory, their targets, and what git's configuration refers to, there or not. Paths are
 * relative to it and borrowed. */
void protect_find(const char *directory, protect_find_fn fn, void *arg);
