#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/limits/cgroup.h"

/* Where control groups are mounted, and which ones hold a process, proc(5) and cgroups(7). */

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

struct cgroup_place {
    char v2_mount[PATH_MAX]; /* mount point of the unified hierarchy; empty: none */
    char v1_mount[CGROUP_CONTROLLERS][PATH_MAX];
    char v2_path[PATH_MAX]; /* the process's cgroup in it */
    char v1_path[CGROUP_CONTROLLERS][PATH_MAX];
};

void cgroup_place_read(struct cgroup_place *place);

/* Starts counting kills in the server's own cgroup, for cgroup_oom_happened(). */
void cgroup_watch_enclosing(struct cgroup *cgroup, const struct cgroup_place *place);

/* Concatenates mount and group. Returns whether they fit. */
bool cgroup_place_join(char path[PATH_MAX], const char *mount, const char *group);

/* The least memory limit of the server's cgroups up to the highest visible one: in a container, the
 * container's. 0: none. */
uint64_t cgroup_place_memory(const struct cgroup_place *place);

/* The directory of pid's cgroup in the unified hierarchy. Returns whether there is one. */
bool cgroup_place_of(pid_t pid, char path[PATH_MAX]);
