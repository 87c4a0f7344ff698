#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "sandbox/workspace/protected.h"

/* The table behind protected.h, for sandbox/ only. Safe between clone and execve. */

/* The git directory. Its rows are also found in git directories with other names (submodules). */
#define PROTECTED_GIT ".git"

/* The rows of a git repository without .git; NULL ends them. */
extern const char *const protected_bare[];

/* Whether name is the row's first component; *ret_rest: the rest of the row, "" if it has one
 * component. Case-insensitive. */
bool protected_begins(unsigned row, const char *name, const char **ret_rest);

static inline bool protected_is_open(uint64_t open, unsigned row)
{
    return open & 1ULL << row;
}

/* State that the parts of a walk share: walk.c finds names; cover.c finds what git's configuration
 * refers to, and mounts. */

enum {
    DIRECTORIES = 4096,
    COVERED = 512, /* noted, so that nothing is mounted twice */
    LINKS = 1024,
    LINK_MOUNTS = 256, /* each takes the kernel about 20 µs at start and again at exit */
    TEXT_BYTES = 1 << 19,
    LIST_BYTES = 1 << 15,
    NO_PACKAGE = -1,
    RESOLVED_S = 2, /* file systems store times in seconds or in kernel ticks */
};

enum place {
    IN_TREE,
    IN_PROTECTED, /* below a name of the table: only hard links matter */
    IN_GIT,       /* git directories of submodules and worktrees, or their parents */
    IN_OBJECTS,   /* git's objects */
};

struct directory {
    const char *path; /* below the root; "" is the root */
    enum place place;
    int package; /* number of the package directory that holds it, or NO_PACKAGE */
};

struct hard_link {
    const char *path;
    dev_t device;
    ino_t inode;
    /* With the last component, identifies the name wherever the directory is moved to. */
    ino_t parent;
    struct timespec changed; /* renaming and linking set it, and code cannot: inode(7) */
    nlink_t names;
    bool is_protected;
};

/* A path that is covered, or to be covered. */
struct spot {
    int root_fd;      /* of the place that code can write to; not owned */
    const char *path; /* below it */
    bool writable;
};

struct walk {
    /* The first is searched; symlinks may lead to the others. */
    const struct protect_root *roots;
    unsigned root_count;
    int root_fds[PROTECT_ROOTS];
    int root_fd; /* of the first root */
    bool mounts; /* makes them; else only counts */
    uint64_t open;
    struct box_protected *found;
    unsigned entries;
    time_t started;
    int error;          /* errno of a name that could not be made read-only, or 0 */
    bool wants_missing; /* names that do not exist yet are noted too */
    bool top_taken;     /* the rows of the first directory are done, by name */
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

/* Mounts the object at the spot over itself. 0 or -1 with errno; ENOENT: does not exist. */
int walk_cover(struct walk *walk, struct spot spot);

/* Makes path read-only; if writable, only impossible to rename or remove. Returns whether path is a
 * directory (want_directory) or anything else (not want_directory). Covers symlinks and their
 * targets. */
bool walk_protect(struct walk *walk, const char *path, bool writable, bool want_directory);
void walk_protect_any(struct walk *walk, const char *path);

/* Covers the rows of the git directory at path. */
void walk_protect_git(struct walk *walk, const char *path);

/* Covers these rows and what the git directory's configuration refers to; tree: its work tree. */
void walk_take_git(struct walk *walk, const char *tree, const char *path);

/* The same for the git directory that the file .git in tree names. */
void walk_take_git_file(struct walk *walk, const char *tree, const char *path);
