#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/types.h"

struct box_spec;

/* Names in a workspace that make programs outside the sandbox (MCP clients, editors, git, shells)
 * execute something while they run, without anybody starting it. Code may only read them, and files
 * whose other names (hard links) may lie outside. names.c has the table. */

/* What --allow-write permits: bit i is row i of the table, the last bit hard-linked files. */
enum { PROTECTED_ROWS = 63, PROTECTED_LINKS = 63 };

/* What a sandbox's start found in the directories that code can write to. */
struct box_protected {
    uint32_t names;      /* protected names that exist */
    uint32_t links;      /* files with names outside, or package directories with such files */
    uint32_t links_open; /* of links: left writable */
    uint64_t rows;       /* of the workspace's top directory: bits of the read-only ones */
    bool enforced;       /* they are read-only; else changes are only reported */
    bool shared;         /* another sandbox used the same workspace meanwhile */
    bool incomplete;     /* more than PROTECTED_ENTRIES entries: the rest is unchecked */
};

/* Shows other servers that a sandbox of this server uses spec's workspace: by a read lock on a byte
 * that no directory has, which blocks nobody, F_OFD_SETLK in fcntl(2). Returns a descriptor, or -1:
 * no lock. */
int box_protected_join(const struct box_spec *spec);
/* Whether another sandbox uses the same workspace. */
bool box_protected_is_shared(int fd);
/* Works also while helpers hold copies of the descriptor. */
void box_protected_leave(int *fd);

enum { PROTECTED_ENTRIES = 5000 };

/* The name of row i, which can be a path such as "hooks/x"; NULL after the last. */
const char *box_protected_name(unsigned i);

/* The bits of one word of --allow-write: a row, all rows below a name (".git"), "hard-links" or
 * "all". 0: unknown word. */
uint64_t box_protected_find(const char *word, size_t size);

/* The row that path is or lies in, or would be in the workspace; NULL: none that is protected, as
 * in a copy-on-write workspace, where programs outside see no changes.
 * Compares text only, at any depth and in either case: some file systems ignore case. */
const char *box_protected_path(const struct box_spec *spec, const char *path);

/* The state of one name: the object, and its content. 0, 0: the name does not exist. */
struct box_protected_seen {
    uint64_t identity;
    uint64_t content; /* 0 while the object is read-only */
};

/* A directory that holds such names: while it is unchanged, none has appeared or gone. */
enum { PROTECTED_PARENTS = 7 };
struct box_protected_parent {
    uint64_t state;
    bool resolved; /* old enough for each later change to show */
};

/* The names in the workspace's top directory, as the server sees them. */
struct box_protected_watch {
    int dir_fd;                     /* -1: nothing to watch */
    uint64_t read_only;             /* bits of the rows that the start has made read-only */
    uint64_t partial;               /* bits of directories with more entries than are checked */
    bool is_git;                    /* the directory was itself a git directory at the last check */
    uint64_t first[PROTECTED_ROWS]; /* identities at the start */
    struct box_protected_seen last[PROTECTED_ROWS];
    struct box_protected_parent parents[PROTECTED_PARENTS];
};

/* Starts to watch spec's workspace, if it is a directory of the user's that code writes to, or
 * continues for another sandbox. read_only: rows of struct box_protected. dir_fd is -1 before the
 * first call. */
void box_protected_watch(const struct box_spec *spec, uint64_t read_only,
                         struct box_protected_watch *watch);
void box_protected_unwatch(struct box_protected_watch *watch);
/* Whether something else than the watched directory is at the workspace's path now, or nothing. */
bool box_protected_is_elsewhere(const struct box_spec *spec,
                                const struct box_protected_watch *watch);

/* Writes "+.vscode ~.git/config -.envrc" into text: what has appeared, changed and gone since the
 * last call, whoever did it. Names are the table's; "+HEAD": git takes the top directory for a git
 * directory. Returns whether there is any change. */
bool box_protected_news(const struct box_spec *spec, struct box_protected_watch *watch, char *text,
                        size_t size);

/* Names in the changes of a workspace that are applied to the user's directory only if the model
 * asks for them by name: programs run these files by themselves, or what they name (protected.h),
 * or a service runs them after a push. */

/* Of one directory of the user's: box_changes_find_rules(), refused_rules_done(). */
struct refused_rules {
    unsigned flags; /* enum refused_flags */
    /* Each with its NUL: what protected names in the directory lead to, that is targets of
     * symlinks, core.hooksPath, included files. A change there needs its name as those names do. */
    struct buf targets;
};

void refused_rules_done(struct refused_rules *rules);

enum refused_flags {
    REFUSED_HOME = 1, /* the directory is a home directory: each file with a dot in its top */
    REFUSED_BARE = 2, /* the path lies in a git repository without .git: HEAD, objects, refs */
};

struct refused {
    const char *row; /* ".git", "*.pth" */
    size_t size;     /* bytes of the path that are to be named */
};

/* Whether a changed path (relative, normal) is refused, where the model has asked for these named
 * paths (as the changed one; "" is the whole directory). A path opens a row if it is the row's
 * name or lies in it; all of .git can be named, and nothing in it. Compares names as a file system
 * might that ignores case. is_bare: REFUSED_BARE holds for this path. */
bool refused_find(const struct refused_rules *rules, const char *path, bool is_bare,
                  const char *const *named, size_t named_count, struct refused *ret);

/* Whether path is in or is `parent`. */
bool refused_is_in(const char *path, const char *parent);

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
