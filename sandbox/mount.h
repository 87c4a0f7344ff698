#pragma once
#include <stdbool.h>
#include <sys/types.h>

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
