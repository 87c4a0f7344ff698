#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/types.h"

/* Host directories that the user grants: each is shown at /data/NAME, read-only unless the user
 * says otherwise. They hold data: no program in them is executed. */

/* What the user requested. Everything is borrowed. */
struct box_mounts_wanted {
    const char *at[BOX_MOUNTS]; /* "DIR[:NAME][:rw]" */
    unsigned count;
    bool home; /* DIR may be the home directory: shows its directories, except hidden ones */
    const char *config[2]; /* paths of configuration files, which need not exist; NULL: none */
};

/* Resolves the directories and fills spec->mounts, until box_mounts_done(). Refuses what would
 * expose more than data: the root directory, the home directory, what the server itself writes or
 * reads at start, and kernel file systems. The rest of spec is complete. Blocks as long as the
 * directories' file systems do. 0 or -errno with ret_fail, and no mounts. */
[[nodiscard]] int box_mounts_resolve(struct box_spec *spec, const struct box_mounts_wanted *wanted,
                                     struct fail *ret_fail);

/* Resolves the workspace, if there is one: spec->workspace becomes path, the real path. Refuses
 * what --mount refuses for writing. 0 or -errno with ret_fail */
[[nodiscard]] int box_workspace_resolve(struct box_spec *spec, char path[PATH_MAX],
                                        struct fail *ret_fail);

#define COW_NEEDS_NAMESPACES                                                                       \
    "--cow needs a sandbox with namespaces, which isolation level container does not have: leave " \
    "out --cow, or allow namespaces (sandpiper doctor --isolation full says how)"

/* Checks --cow and --cow-store. The workspace is resolved already; spec->cow_store becomes path,
 * the real path, which need not exist. 0 or -errno with ret_fail */
[[nodiscard]] int box_cow_resolve(struct box_spec *spec, char path[PATH_MAX],
                                  struct fail *ret_fail);
/* Whether this server can show a directory without what is mounted below it: only the owner of the
 * mount namespace may reveal what such mounts hide. */
bool box_cow_may_leave_out(void);

/* Checks --record or --keep, which flag names: path becomes the real path of dir, which need not
 * exist. Refuses one that lies in or around what code can see. Workspace, mounts and store are
 * resolved already. 0 or -errno with ret_fail */
[[nodiscard]] int box_apart_resolve(const struct box_spec *spec, const char *flag, const char *dir,
                                    char path[PATH_MAX], struct fail *ret_fail);

/* A file or directory of the user's that the server relies on. */
struct box_trusted {
    const char *what; /* for messages: "the configuration file" */
    const char *path; /* NULL: none; need not exist yet */
    const char *fix;  /* the user's fix where code could change it, a clause */
    bool is_tree;     /* together with everything in it */
};

/* Refuses a spec whose code could change the server's own program and libraries or one of these;
 * see trust.h. Workspace and mounts are resolved already. Fills spec->aliases, until
 * box_mounts_done(). 0 or -errno with ret_fail */
[[nodiscard]] int box_trust_check(struct box_spec *spec, const struct box_trusted *files,
                                  unsigned count, struct fail *ret_fail);

/* Frees what box_mounts_resolve() and box_trust_check() have filled in. */
void box_mounts_done(struct box_spec *spec);

/* The next directory below dir on which something is mounted, or NULL. *at: in the text of
 * /proc/PID/mountinfo, which is changed. */
const char *box_mounts_below(char **at, const char *dir);

/* Refuses a kernel file system below a directory that is shown, or below the workspace, by the text
 * of /proc/PID/mountinfo: magic links of proc lead out of any sandbox. 0 or -EPERM */
[[nodiscard]] int box_mounts_check(const struct box_spec *spec, const char *mountinfo,
                                   struct fail *ret_fail);

/* The same with the current mounts. */
[[nodiscard]] int box_mounts_check_now(const struct box_spec *spec, struct fail *ret_fail);

/* Whether text can be reported to a client: UTF-8 without control characters. */
bool box_mount_is_text(const char *text);

/* Splits text, which is changed, into its parts. *ret_name is NULL where none is given. 0 or
 * -EINVAL */
[[nodiscard]] int box_mount_split(char *text, const char **ret_dir, const char **ret_name,
                                  bool *ret_writable, struct fail *ret_fail);

/* The package directories of all servers. */

/* The same in two parts, by the user's setting or the environment's: a parent directory, which need
 * not exist yet, and the name in it. 0 or -errno, with ret_fail */
int cache_place(const struct box_spec *spec, char parent[PATH_MAX], const char **ret_name,
                struct fail *ret_fail);

/* Mode of a directory that the server makes there. */
mode_t cache_mode(const struct box_spec *spec);
