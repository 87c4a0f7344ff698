#pragma once
#include "base/fail.h"

/* The directory that holds the files of sandboxes without a root of their own. */

struct box_scratch;
struct box_spec;

/* Resolves spec's isolation, if it is BOX_ISOLATION_BEST, and its memory limit, by the container or
 * service around the server. For isolation without namespaces makes the scratch directory below
 * $TMPDIR, /tmp or /dev/shm, the first that will do; otherwise returns NULL. Points spec's paths
 * and scratch to it, so it must outlive spec. spec->workspace and spec->guest must be set.
 * box_scratch_close removes it, or the cleanup helper if the server ends in any other way. 0 or
 * -errno */
[[nodiscard]] int box_scratch_open(struct box_spec *spec, struct box_scratch **ret_scratch,
                                   struct fail *ret_fail);

/* scratch may be NULL; no sandbox may use it. */
void box_scratch_close(struct box_scratch *scratch);
