#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/fail.h"

/* Directories of the host that the user hands to code, by --workspace and --mount: looked up once, at start,
 * and refused where that would hand over more than data. */

/* The home directories that are the user's: of the variable HOME, which may be missing or false, and of
 * /etc/passwd, for the effective user. */
struct directory_homes {
    char paths[2][PATH_MAX]; /* real; empty: not known */
};

void directory_find_homes(struct directory_homes *ret_homes);

/* Looks up what the user wrote, "~" and "~/…" too: a client's configuration has no shell that would replace
 * it. flag: for the sentence. path: the real one. 0 or -errno; -ENOTDIR and others mean a wrong command line. */
[[nodiscard]] int directory_find(const char *flag, const char *dir,
                                 const struct directory_homes *homes, char path[PATH_MAX],
                                 struct stat *ret_stat, struct fail *ret_fail);

bool directory_is_home(const char *path, const struct directory_homes *homes);

/* Refuses the root directory, what a home directory lies in, and, where code is to write there, a home
 * directory itself and those that the system runs from. path: real. 0 or -EPERM with a sentence. */
[[nodiscard]] int directory_check(const char *flag, const char *path, bool writable,
                                  const struct directory_homes *homes, struct fail *ret_fail);
