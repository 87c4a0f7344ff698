#pragma once
#include "sandbox/sandbox.h"
#include "sandbox/workspace/protected.h"

/* The start of a sandbox looks for protected names and hard-linked files in a directory that code will be able to
 * write to, and makes them read-only there. For the child between clone and execve: no heap. */

enum protect_how {
    PROTECT_MOUNT, /* by open_tree(2) and its kin, Linux 5.12 */
    PROTECT_BIND,  /* by mount(2); needs the host's /proc */
    PROTECT_LOOK,  /* not at all: counted only */
};

/* A directory that code can write to. */
struct protect_root {
    const char *path; /* where it is now */
    const char *host; /* absolute; where programs outside find it */
};
enum { PROTECT_ROOTS = BOX_MOUNTS + 1 };

/* Looks through the first of roots; links and settings in it may lead to the others. open: bits of --allow-write. Adds
 * to found, but for found->rows, which are those of this directory. Names that vanish meanwhile are passed over; no
 * symbolic link is followed but for those from a protected name. 0, or -1 with errno: a name that is there could
 * not be made read-only. */
[[nodiscard]] int protect_directory(const struct protect_root *roots, unsigned root_count,
                                    uint64_t open, enum protect_how how,
                                    struct box_protected *found);
