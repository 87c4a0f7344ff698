#pragma once
#include "sandbox/box/box.h"
#include "sandbox/launch/child.h"

/* From a plan to a running init. */

extern const struct launched launch_none;

/* Clones the child, into the control group where group_fd is one, maps its ids and lets it build
 * its root. setup: without what this function makes. whose: names it in messages. 0 or -errno;
 * ret_child then holds what was made so far. */
int launch_start(struct launched *ret_child, struct child_setup *setup, int group_fd,
                 const char *whose, struct fail *ret_fail);
/* Kills the child and closes what is open. Idempotent. */
void launch_end(struct launched *child);

/* Whether the calls are there that the sandbox's programs need at every level. Linux 5.12 has them,
 * and a container's filter may refuse them. 0 or -ENOSYS */
int launch_check_calls(struct fail *ret_fail);

/* Clones the child and lets it build its root. 0 or -errno; box then holds what was made so far. */
int launch_child(struct box *box, struct fail *ret_fail);
/* Call it when the groups are known: writes init's settings, moves the child into the groups and
 * lets it continue. 0 or -errno */
int launch_confine(struct box *box, struct fail *ret_fail);

/* The sizes of the guest's resource limits. */
struct rlimit_sizes config_sizes(const struct box *box);

/* Starts the process monitor of a sandbox whose init has no /proc, or gives it the new interpreter.
 * 0 or -errno */
int monitor_start(struct box *box, struct fail *ret_fail);

/* Resolves BOX_ISOLATION_BEST to the level that this host supports. Must be called before a spec is
 * used for paths or texts. */
void namespace_check_resolve(struct box_spec *spec);
