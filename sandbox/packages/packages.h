#pragma once
#include "sandbox/types.h"

struct box_packages;
struct loop;

/* A server's installed packages: host directories with the layers 1 … N, which each sandbox of the
 * server shows read-only at /packages/1 … /packages/N, and a staging directory, in which installers
 * build the next layer. A layer never changes, and is removed with the server. */

/* Has no side effects yet: the first sandbox or installer that needs the directories makes them. 0
 * or -ENOMEM */
[[nodiscard]] int box_packages_new(struct loop *loop, const struct box_spec *spec,
                                   struct box_packages **ret_packages, struct fail *ret_fail);

/* Has everything removed except the download cache. packages may be NULL; no sandbox uses them. */
void box_packages_free(struct box_packages *packages);

/* The directory of the layers, at code's path. */
const char *box_packages_path(const struct box_packages *packages);

/* N: the layers 1 … N exist. */
unsigned box_packages_layers(const struct box_packages *packages);

struct box_packages_layer {
    unsigned number;
    uint64_t bytes;
    uint64_t files;
};

/* Checks that /stage/new holds only files and directories, within the limits, and makes it the next
 * layer: completely or not at all. Empties the staging directory in both cases. No installer is
 * running. 0 or -errno with ret_fail: -EINVAL for the content, -EDQUOT for the size. */
[[nodiscard]] int box_packages_commit(struct box_packages *packages,
                                      struct box_packages_layer *ret_layer, struct fail *ret_fail);

/* Empties the staging directory. */
void box_packages_discard(struct box_packages *packages);
