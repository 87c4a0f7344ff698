#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/fail.h"

struct box_spec;

/* Folders of the host that the user grants: each is shown at /data/NAME, read-only unless he says
 * otherwise. They hold data: no program in them is executed. Part of sandbox.h. */

enum { BOX_MOUNTS = 32 };

struct box_mount {
    const char *name; /* below /data; of a folder in the home folder "HOME/FOLDER" */
    const char *path; /* of the host, absolute and without links */
    uid_t uid;        /* whose it is */
    gid_t gid;
    bool writable;
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

/* Forgets what box_mounts_settle() has filled in. */
void box_mounts_done(struct box_spec *spec);

/* Refuses when one of these is mounted below a folder that is shown, by the text of
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
