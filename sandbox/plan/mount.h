#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/fail.h"

struct box_spec;

/* Folders of the host that the user grants: each is shown at /data/NAME, read-only unless he says
 * otherwise. They hold data: no program in them is executed. Part of sandbox.h. */

enum { BOX_MOUNTS = 32, BOX_ALIASES = 32 };

struct box_mount {
    const char *name; /* below /data; of a folder in the home folder "HOME/FOLDER" */
    const char *path; /* of the host, absolute and without links */
    uid_t uid;        /* whose it is */
    gid_t gid;
    bool writable;
};

/* Where more is mounted. Strings are owned. */
struct box_aliases {
    const char *at[BOX_ALIASES];
    unsigned count;
};

/* What the user asked for. All is borrowed. */
struct box_mounts_wanted {
    const char *at[BOX_MOUNTS]; /* "DIR[:NAME][:rw]" */
    unsigned count;
    bool home; /* DIR may be the home folder: its folders are shown, but for hidden ones */
    const char *config[2]; /* where configuration files are, or would be; NULL: nowhere */
};

/* Looks the folders up and fills spec->mounts, until box_mounts_done(). Refuses what would show or hand over more than data: the root folder, the home folder, what the server itself
 * keeps or goes by, and file systems of the kernel. The rest of spec is complete. Blocks as long as
 * their file systems do. 0 or -errno with a sentence, and no mounts. */
[[nodiscard]] int box_mounts_settle(struct box_spec *spec, const struct box_mounts_wanted *wanted,
                                    struct fail *ret_fail);

/* Looks the workspace up, where one is named: spec->workspace becomes path, its real one. Refuses what
 * --mount refuses for writing. 0 or -errno with a sentence */
[[nodiscard]] int box_workspace_settle(struct box_spec *spec, char path[PATH_MAX],
                                       struct fail *ret_fail);

/* A file or directory of the user's that the server goes by. */
struct box_trusted {
    const char *what; /* in a sentence: "the configuration file" */
    const char *path; /* NULL: there is none; it need not exist yet */
    const char *fix;  /* what the user is to do where code could change it, a clause */
    bool is_tree;     /* with all that is in it */
};

/* Refuses a spec whose code could change the server's own program and libraries or one of these; see
 * trust.h. Workspace and mounts are settled; fills spec->aliases, until box_mounts_done(). 0 or -errno with a
 * sentence */
[[nodiscard]] int box_trust_check(struct box_spec *spec, const struct box_trusted *files,
                                  unsigned count, struct fail *ret_fail);

/* Forgets what box_mounts_settle() and box_trust_check() have filled in. */
void box_mounts_done(struct box_spec *spec);

/* Refuses when one of these is mounted below a folder that is shown, the workspace too, by the text of
 * /proc/PID/mountinfo: links of a proc file system lead out of any sandbox. 0 or -EPERM */
[[nodiscard]] int box_mounts_judge(const struct box_spec *spec, const char *mountinfo,
                                   struct fail *ret_fail);

/* The same by what is mounted now. */
[[nodiscard]] int box_mounts_judge_now(const struct box_spec *spec, struct fail *ret_fail);

/* Whether a host can be told of it: UTF-8 without control characters. */
bool box_mount_is_text(const char *text);

/* Cuts text, which is changed, into its parts. *ret_name is NULL where none is given. 0 or -EINVAL */
[[nodiscard]] int box_mount_split(char *text, const char **ret_dir, const char **ret_name,
                                  bool *ret_writable, struct fail *ret_fail);
