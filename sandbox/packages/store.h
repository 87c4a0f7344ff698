#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/box/box.h"
#include "sandbox/packages/packages.h"
#include "sandbox/plan/plan.h"
#include "sandbox/types.h"

/* The directories of a server's packages. For packages/ and installer/ only. */

struct box_packages {
    struct loop *loop;
    const struct box_spec *spec;
    enum { PACKAGES_NEW, PACKAGES_OPEN, PACKAGES_NONE } state;
    struct fail error; /* PACKAGES_NONE: why */
    char name[32];     /* of this server's directory in boxes */
    char *layers;      /* absolute paths; NULL: not open */
    char *staging;
    char *download;
    uid_t uid; /* of installers, once open */
    gid_t gid;
    int boxes_fd;
    int directory_fd; /* boxes/NAME */
    int lock_fd;
    struct cleanup cleanup;
    unsigned layer_count;
    uint64_t bytes; /* of all layers */
    uint64_t files;
};

/* Makes missing directories. 0 or -errno; the result of the first call stays. */
int packages_open(struct box_packages *packages);

/* Shows the layers; packages is open. */
void packages_show(const struct box_packages *packages, struct plan_content *content);

/* Makes the staging directory if it is missing; packages is open. 0 or -errno */
int packages_make_staging(const struct box_packages *packages, struct fail *ret_fail);

/* Opens the directory that all servers of the user share; with make, makes it. path: its real path.
 * Returns the descriptor or -errno. */
int packages_place(const struct box_spec *spec, bool make, char path[PATH_MAX],
                   struct fail *ret_fail);
