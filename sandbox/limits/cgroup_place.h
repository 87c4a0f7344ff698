#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/limits/cgroup.h"

/* Where control groups are mounted and which ones a process is in, proc(5) and cgroups(7). */

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

struct cgroup_place {
    char v2_mount[PATH_MAX]; /* where the unified hierarchy is mounted; empty: nowhere */
    char v1_mount[CGROUP_CONTROLLERS][PATH_MAX];
    char v2_path[PATH_MAX]; /* the own group in it */
    char v1_path[CGROUP_CONTROLLERS][PATH_MAX];
};

void cgroup_place_read(struct cgroup_place *place);

/* Begins to count the kills in the server's own group, for cgroup_oom_happened(). */
void cgroup_watch_around(struct cgroup *cgroup, const struct cgroup_place *place);

/* mount and group, one behind the other. Whether they fit. */
bool cgroup_place_join(char path[PATH_MAX], const char *mount, const char *group);

/* The least memory limit of the own groups, up to the highest that is seen: in a container that is the
 * container's. 0: there is none. */
uint64_t cgroup_place_memory(const struct cgroup_place *place);

/* The folder of pid's group in the unified hierarchy. Whether there is one. */
bool cgroup_place_of(pid_t pid, char path[PATH_MAX]);
