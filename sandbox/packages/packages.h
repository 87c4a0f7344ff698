#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/plan/plan.h"
#include "sandbox/sandbox.h"
#include "sandbox/start/sweeper.h"

/* Inside of the room: where the packages of a server are. */

struct box_packages {
    struct loop *loop;
    const struct box_spec *spec;
    enum { PACKAGES_NEW, PACKAGES_OPEN, PACKAGES_NONE } state;
    struct fail trouble; /* PACKAGES_NONE: why */
    char name[32];       /* of this server's folder in boxes */
    char *layers;        /* absolute paths; NULL: not open */
    char *stage;
    char *download;
    int boxes_fd;
    int folder_fd; /* boxes/NAME */
    int lock_fd;
    struct sweeper sweeper;
    unsigned layer_count;
    unsigned rubbish; /* how many stages were put away */
    uint64_t bytes;   /* of all layers */
    uint64_t files;
};

/* Makes the folders where they are not there. 0 or -errno, which stays. */
int packages_open(struct box_packages *packages);

/* Shows the layers, of opened packages. */
void packages_show(const struct box_packages *packages, struct plan_content *content);

/* The folder that packages would go to, whether it is there or not. 0 or -errno */
int packages_path(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail);

/* Where packages would go for this spec: opens the folder that the user's servers have in common,
 * which is made with make. path: its real one. Returns the descriptor or -errno. */
int packages_place(const struct box_spec *spec, bool make, char path[PATH_MAX],
                   struct fail *ret_fail);

/* layer_check.c: judges a folder that is to be a layer, and sets its modes. Adds to made what it holds. */
int layer_check(int folder_fd, uint64_t bytes_most, uint64_t files_most,
                struct box_layer_made *made, struct fail *ret_fail);
