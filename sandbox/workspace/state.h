#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "sandbox/workspace/names.h"
#include "sandbox/workspace/walk.h"

/* What the parts of a walk share: walk.c finds names, git.c what git's configuration leads to, cover.c mounts. */

enum {
    DIRECTORIES = 4096,
    COVERED = 512, /* remembered, so that nothing is mounted twice */
    LINKS = 1024,
    LINK_MOUNTS = 256, /* each takes the kernel some 20 µs at the start, and again at the end */
    TEXT_BYTES = 1 << 19,
    LIST_BYTES = 1 << 15,
    NO_PACKAGE = -1,
    SETTLED_S = 2, /* file systems keep times in seconds, or in ticks of the kernel's */
};

enum place {
    IN_TREE,
    IN_PROTECTED, /* below a name of the table: only hard links are of interest */
    IN_GIT,     /* git directories of submodules and worktrees, or directories with such in them */
    IN_OBJECTS, /* of git */
};

struct directory {
    const char *path; /* below the root; "" is the root */
    enum place place;
    int package; /* the directory of packages that it is in, by number, or NO_PACKAGE */
};

struct hard_link {
    const char *path;
    dev_t device;
    ino_t inode;
    ino_t
        parent; /* with the last component: which name it is, wherever the directory is moved to */
    struct timespec changed; /* renaming and linking set it, and code cannot: inode(7) */
    nlink_t names;
    bool is_protected;
};

/* What is covered, or is to be. */
struct spot {
    int root_fd;      /* of the place that code can write to; not owned */
    const char *path; /* below it */
    bool writable;
};

struct walk {
    const struct protect_root
        *roots; /* the first is looked through, links may lead to the others */
    unsigned root_count;
    int root_fds[PROTECT_ROOTS];
    int root_fd; /* the first of these */
    enum protect_how how;
    uint64_t open;
    struct box_protected *found;
    unsigned entries;
    time_t started;
    int error;      /* errno of a name that could not be made read-only, or 0 */
    bool top_taken; /* the rows of the first directory, by name */
    unsigned covered_count;
    unsigned directory_count;
    unsigned link_count;
    size_t text_used;
    struct spot covered[COVERED];
    struct directory directories[DIRECTORIES];
    bool package_done[DIRECTORIES]; /* by the number of its directory */
    struct hard_link links[LINKS];
    char text[TEXT_BYTES];
};

/* "directory/name", or NULL when there is no space left. */
const char *walk_keep(struct walk *walk, const char *directory, const char *name);

/* Opens path below root_fd; no link on the way. Before Linux 5.6 only the last component is sure to be none. */
int walk_open(int root_fd, const char *path, int flags);

/* Mounts over itself what is at the spot. 0 or -1 with errno; ENOENT: nothing. */
int walk_cover(struct walk *walk, struct spot spot);

/* Makes path read-only, or, writable, no more than impossible to rename and to remove. Returns whether
 * there is such a directory (want_directory) or anything else. Links are covered and what they lead to. */
bool walk_protect(struct walk *walk, const char *path, bool writable, bool want_directory);
void walk_protect_any(struct walk *walk, const char *path);

/* Goes to what text names for a program outside whose working directory is directory (below the root). What could be put
 * in the way is covered: each link, each directory, writable. False: nothing that code can write to. */
bool walk_follow(struct walk *walk, const char *directory, const char *text, struct spot *ret_spot);

/* Covers, read-only and counted, what text names. */
bool walk_protect_named(struct walk *walk, const char *directory, const char *text,
                        struct spot *ret_spot);

/* The rows of a git directory in the one at path. */
void walk_protect_git(struct walk *walk, const char *path);

/* These, and what its configuration leads to; tree: the directory at work with it. */
void walk_take_git(struct walk *walk, const char *tree, const char *path);

/* The same for the git directory that the file .git in tree leads to. */
void walk_take_git_file(struct walk *walk, const char *tree, const char *path);
