#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "sandbox/sandbox.h"

/* The control group of a box, version 1 or 2 behind one face. What cannot be had here is said in
 * the state of its controller; nothing here is required. Kernel: Documentation/admin-guide/
 * cgroup-v1 and cgroup-v2. */

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS };

enum { CGROUP_FOLDERS = CGROUP_CONTROLLERS };

struct cgroup {
    char name[64]; /* of the folder, the same below each parent; empty: there is none */
    int parent_fds[CGROUP_FOLDERS]; /* distinct parent folders */
    int fds[CGROUP_FOLDERS];        /* the folder below each; -1: not made */
    unsigned folder_count;
    int controller_parent[CGROUP_CONTROLLERS]; /* index of its parent folder, or -errno */
    int controller_fd[CGROUP_CONTROLLERS];     /* borrowed from fds; -1: not available */
    char why[CGROUP_CONTROLLERS][160];         /* not available: why */
    bool unified;
    uint64_t oom_kills; /* as last seen */
};

/* Finds the parent folders and a name, and makes nothing yet, so that the reaper can be there before
 * there is anything to remove. Never fails: what is missing is told by cgroup_has(). */
void cgroup_find(struct cgroup *cgroup);

/* Makes the folders and sets the limits. */
void cgroup_make(struct cgroup *cgroup, const struct box_limits *limits);

bool cgroup_has(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Moves the process in, before it runs anything. 0 or -errno. */
int cgroup_attach(const struct cgroup *cgroup, pid_t pid);

/* Whether the kernel has killed for memory since the last question. */
bool cgroup_oom_happened(struct cgroup *cgroup);
/* Bytes in use and their highest mark; 0 when unknown. */
uint64_t cgroup_memory_peak(const struct cgroup *cgroup);

/* Removes the folders; the processes in them are dead or dying: waits up to 200 ms for them. */
void cgroup_remove(struct cgroup *cgroup);

/* Lets go of the folders without removing them. */
void cgroup_leave(struct cgroup *cgroup);
