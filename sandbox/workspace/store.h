#pragma once
#include <limits.h>
#include <stdbool.h>

#include "base/fail.h"

struct box_spec;

/* The directory of --cow-store: for each workspace a directory, named by a hash of the workspace's
 * path, with
 *
 *     workspace   the path
 *     layers/     what the sandbox sees: the overlay's upper layer and its working directory
 *
 * and space for files of the server. Only the server's user can enter it. */

struct box_store {
    int fd;                /* the workspace's directory, with a lock for the server's life */
    char path[PATH_MAX];   /* its path */
    char layers[PATH_MAX]; /* path of layers/ */
    bool taken;            /* another server has the lock: changes are kept in memory */
};

/* Opens spec's store, if it names one; makes what is missing. spec: resolved. *ret_store: NULL:
 * none; else until box_store_close(), and then spec->store points to it unless it is taken. 0 or
 * -errno with ret_fail. */
[[nodiscard]] int box_store_open(struct box_spec *spec, struct box_store **ret_store,
                                 struct fail *ret_fail);
/* After the last sandbox has ended. store may be NULL. */
void box_store_close(struct box_store *store);

/* Whether another server has the store that spec names, so that changes are kept in memory. */
bool box_store_is_taken(const struct box_spec *spec);

/* The directory for the server's own files, or -1: changes do not outlive the server. Borrowed. */
int box_store_fd(const struct box_spec *spec);
