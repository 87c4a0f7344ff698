#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names in a workspace by which programs outside of the sandbox (MCP clients, editors, git, shells) are told what
 * to execute while they run: nobody starts anything by hand. Code gets them read-only, and so it does
 * files whose other names (hard links) may lie outside. names.c has the table. Part of sandbox.h. */

struct box_spec;
struct buf;

/* What --allow-write opens: bit i is row i of the table, the last bit hard-linked files. */
enum { PROTECTED_ROWS = 48, PROTECTED_LINKS = 63 };

/* What the start of a sandbox found in the directories that code can write to. */
struct box_protected {
    uint32_t names; /* that are there, */
    uint32_t links; /* files with names outside, or package directories with such files in them */
    uint32_t links_open; /* of these: left writable */
    uint64_t rows;       /* of the workspace's top directory: bits of those that are read-only */
    bool enforced;       /* they are read-only; else changes are only reported */
    bool shared;         /* another sandbox was at work in the same workspace meanwhile */
    bool incomplete;     /* there are more entries than are looked at: PROTECTED_ENTRIES */
};

/* Says to other servers that a sandbox of this one works in spec's workspace: by a read lock on a byte that no file of a
 * directory has, which hinders nobody, F_OFD_SETLK in fcntl(2). Returns a descriptor, or -1: there is none to tell. */
int box_protected_join(const struct box_spec *spec);
/* Whether another sandbox does. */
bool box_protected_is_shared(int fd);
/* Also while helpers hold copies of the descriptor. */
void box_protected_leave(int *fd);

enum { PROTECTED_ENTRIES = 5000 };

/* Name of row i, "hooks/x" style paths included; NULL behind the last. */
const char *box_protected_name(unsigned i);

/* The bits of one word of --allow-write: a row, all rows below a name (".git"), "hard-links" or "all". 0: there
 * is nothing of this name. */
uint64_t box_protected_find(const char *word, size_t size);

/* The row that path is, lies in or, as a workspace's path, would lie in; NULL: none that is protected. Looks at
 * the text alone, at any depth and in either case: some file systems fold it. */
const char *box_protected_path(const struct box_spec *spec, const char *path);

/* One name as it was seen: which object, and what is in it. 0, 0: nothing is there. */
struct box_protected_seen {
    uint64_t identity;
    uint64_t content; /* 0 while the object is read-only */
};

/* A directory that such names are in: as long as it has not changed, none has come or gone. */
enum { PROTECTED_PARENTS = 7 };
struct box_protected_parent {
    uint64_t state;
    bool settled; /* it was old enough for each later change to show */
};

/* The names in the top directory of the workspace, as the server sees them. */
struct box_protected_watch {
    int dir_fd;                     /* -1: there is nothing to watch */
    uint64_t read_only;             /* bits of the rows that the start has made so */
    uint64_t partial;               /* bits of directories with more in them than is looked at */
    bool is_git;                    /* the directory was itself a git directory at the last look */
    uint64_t first[PROTECTED_ROWS]; /* identities at the start */
    struct box_protected_seen last[PROTECTED_ROWS];
    struct box_protected_parent parents[PROTECTED_PARENTS];
};

/* Begins to watch spec's workspace, if that is a directory of the user's, or goes on for another sandbox. read_only:
 * rows of struct box_protected. dir_fd is -1 before the first time. */
void box_protected_watch(const struct box_spec *spec, uint64_t read_only,
                         struct box_protected_watch *watch);
void box_protected_unwatch(struct box_protected_watch *watch);

/* Writes "+.vscode ~.git/config -.envrc" into text: what appeared, changed and went since the last look,
 * whoever did it. Names are the table's; "+HEAD": git takes the top directory for a git directory. Returns whether there is anything. */
bool box_protected_news(const struct box_spec *spec, struct box_protected_watch *watch, char *text,
                        size_t size);
