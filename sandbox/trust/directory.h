#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/fail.h"

/* Host directories that the user grants to code by --workspace and --mount: resolved once, at
 * start, and refused where they would expose more than data. */

/* The user's home directories now: from the variable HOME, which may be missing or wrong, and from
 * /etc/passwd, for the effective user. */
struct directory_homes {
    char paths[2][PATH_MAX]; /* real; empty: unknown */
};

void directory_find_homes(struct directory_homes *ret_homes);

/* Resolves the user's text, also "~" and "~/…": a client's configuration has no shell that would
 * expand it. flag: for messages. path: the real path. 0 or -errno; -ENOTDIR and others mean a wrong
 * command line. */
[[nodiscard]] int directory_find(const char *flag, const char *dir, char path[PATH_MAX],
                                 struct stat *ret_stat, struct fail *ret_fail);

/* The same for a directory whose last component need not exist. */
[[nodiscard]] int directory_find_new(const char *flag, const char *dir, char path[PATH_MAX],
                                     struct fail *ret_fail);

bool directory_is_home(const char *path);

/* Refuses a directory that lies in a store of --cow-store, is one or holds one: what is in it is
 * applied to another directory. path: real. 0 or -EPERM with ret_fail. */
[[nodiscard]] int directory_check_stores(const char *flag, const char *path, struct fail *ret_fail);

/* Refuses the root directory and any parent of a home directory; if code may write there, also a
 * home directory itself and the directories that the system runs from. path: real. 0 or -EPERM with
 * ret_fail. */
[[nodiscard]] int directory_check(const char *flag, const char *path, bool writable,
                                  struct fail *ret_fail);
