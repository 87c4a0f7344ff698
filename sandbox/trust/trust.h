#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/fail.h"
#include "sandbox/types.h"

/* Whether a host path passes through a directory in which code can make, change and replace any
 * entry: the server must not follow a name there unless the name has been made safe. */

enum overlap {
    OVERLAP_NONE,
    /* No symlink on the way: rest is the path below the directory, "" for the directory itself. */
    OVERLAP_INSIDE,
    OVERLAP_THROUGH, /* enters the directory, and a symlink or ".." there leads on */
};

/* Follows path name by name through all symlinks, as path_resolution(7) does. Identifies dir by
 * device and inode, so under every name and bind mount. path: need not exist; a relative one starts
 * at the current directory. dir: NULL, or a directory. A path that cannot be followed to its end
 * (too long, too many symlinks) is OVERLAP_THROUGH once it has entered dir. */
enum overlap overlap_of(const char *path, const char *dir, char ret_rest[PATH_MAX]);

/* The same for path's parent directory, whatever path itself is. */
enum overlap overlap_of_parent(const char *path, const char *dir, char ret_rest[PATH_MAX]);

/* Whether path overlaps with dir in either way. */
bool overlap_enters(const char *path, const char *dir);
/* Whether one of two directories enters the other. NULL is none. */
bool overlap_between(const char *one, const char *other);

/* The one rule for everything that the server executes, reads as settings or trusts: code can write
 * neither to it nor to a directory above it, anywhere on the way through its symlinks.
 * docs/THREATS.md lists what must meet the rule. */

enum { TRUST_PLACES = BOX_MOUNTS + BOX_ALIASES + 6 };

/* A host directory that code can write to. Borrowed. */
struct trust_place {
    const char *path;
    bool workspace;     /* the user's, of this sandbox or of the sessions beside it */
    bool alias;         /* another mount of an earlier one */
    bool shared_memory; /* of the whole machine, where code has none of its own */
};

/* A bind mount gives a directory another path, which resolving does not reveal. Puts into
 * spec->aliases where parts of code's directories are mounted elsewhere, and what is mounted in
 * those places. 0 or -errno */
[[nodiscard]] int trust_find_aliases(struct box_spec *spec, struct fail *ret_fail);
/* The same by the text of /proc/PID/mountinfo, which is changed. */
[[nodiscard]] int trust_read_aliases(struct box_spec *spec, char *mountinfo, struct fail *ret_fail);
void trust_forget_aliases(struct box_spec *spec);

/* All places of this sandbox and of those beside it. Returns how many. */
unsigned trust_places(const struct box_spec *spec, struct trust_place places[TRUST_PLACES]);

/* The place that path leads into; .path is NULL: none, so path can be trusted. path: as in
 * overlap_of(). */
struct trust_place trust_meets(const struct box_spec *spec, const char *path);

/* Refuses path where code could change it. what: "the configuration file"; fix: what the user can
 * do, a clause. 0 or -EPERM with ret_fail. */
[[nodiscard]] int trust_check(const struct box_spec *spec, const char *what, const char *path,
                              const char *fix, struct fail *ret_fail);

/* The same for a directory with its whole content: none of code's directories may lie in it
 * either. */
[[nodiscard]] int trust_check_tree(const struct box_spec *spec, const char *what, const char *dir,
                                   const char *fix, struct fail *ret_fail);

/* The message for callers that check on their own. -EPERM */
int trust_refuse(const char *what, const char *path, const struct trust_place *place,
                 const char *fix, struct fail *ret_fail);

/* What the server itself depends on: its program, the libraries it was started with, and where the
 * dynamic loader would search for others at the next start (LD_AUDIT, LD_LIBRARY_PATH, LD_PRELOAD;
 * ld.so(8)). 0 or -EPERM */
[[nodiscard]] int trust_check_self(const struct box_spec *spec, struct fail *ret_fail);

/* The trusted entries of PATH in their order, or the usual directories where PATH is empty. Leaves
 * out relative and empty entries, which mean the current directory, and an entry that does not fit
 * into out, which has size bytes. */
void trust_path(const struct box_spec *spec, char *out, size_t size);

/* Searches the system's own directories for an executable, whatever PATH says; out: PATH_MAX bytes.
 * Returns false where there is none that can be trusted. */
bool trust_find_system_program(const struct box_spec *spec, const char *name, char *out);

/* The text of /proc/self/mountinfo, proc_pid_mountinfo(5); the caller frees it. 0 or -errno */
[[nodiscard]] int trust_read_mounts(char **ret_text, struct fail *ret_fail);

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
