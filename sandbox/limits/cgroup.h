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
    const char *remedy;                        /* static: what to do about it */
    bool unified;
    bool wants_scope;   /* the own group is not ours to divide, but systemd may give us a scope */
    bool is_scope;      /* systemd's: fds[0] is it, and there is no parent folder of ours */
    bool counts_inet;   /* buffers of TCP and UDP */
    uint64_t oom_kills; /* as last seen */
    /* The group that the server is in, whose limit counts where the box has none of its own. */
    int around_fd;
    bool around_watched;
    bool around_unified;
    uint64_t around_kills;
};

/* What the groups around the server allow becomes spec's memory_around, and its memory limit at most three
 * quarters of that: at the other the kernel may end all that is there, the server too (memory.oom.group,
 * cgroups(7)). */
void cgroup_fit_memory(struct box_spec *spec);

/* Finds the parent folders and a name, and makes nothing yet, so that the reaper can be there before
 * there is anything to remove. Never fails: what is missing is told by cgroup_has(). Where the own
 * group belongs to systemd wants_scope is set: then scope_ask() goes on, and one of the next two. */
void cgroup_find(struct cgroup *cgroup);

/* pid is in the scope that was asked for: takes it, as far as it has the limits. 0 or -errno. */
int cgroup_take_scope(struct cgroup *cgroup, pid_t pid, const struct box_limits *limits);
/* There is none. */
void cgroup_refuse_scope(struct cgroup *cgroup, const char *why);

/* Makes the folders and sets the limits. */
void cgroup_make(struct cgroup *cgroup, const struct box_limits *limits);

bool cgroup_has(const struct cgroup *cgroup, enum cgroup_controller controller);

/* Where clone3(2) may put a child at its birth, CLONE_INTO_CGROUP (Linux 5.7, version 2 only): borrowed,
 * or -1. */
int cgroup_birthplace(const struct cgroup *cgroup);

/* Moves the process in, before it runs anything. 0 or -errno. */
int cgroup_attach(const struct cgroup *cgroup, pid_t pid);

/* Whether the kernel has killed for memory since the last question: in the box's group, or where that does not
 * count memory in the server's. */
bool cgroup_oom_happened(struct cgroup *cgroup);
/* The highest mark of bytes in use; 0 when unknown, as before Linux 5.19. */
uint64_t cgroup_memory_peak(const struct cgroup *cgroup);

/* Bytes in use; from matters_bytes on without cached files, which the kernel could take back: that
 * is slower to learn. 0 when unknown. */
uint64_t cgroup_memory_used(const struct cgroup *cgroup, uint64_t matters_bytes);

/* Bytes of memory for one socket of TCP or UDP that the group's limit does not hold. Where it counts buffers, version
 * 1 lets through one packet each way in any case (__sk_mem_raise_allocated() in net/core/sock.c). */
uint64_t cgroup_uncounted_inet(const struct cgroup *cgroup);

/* Removes the folders; the processes in them are dead or dying: waits up to 200 ms for them. */
void cgroup_remove(struct cgroup *cgroup);

/* How many groups of servers that are gone lie beside ours, after cgroup_find(). */
unsigned cgroup_count_stale(const struct cgroup *cgroup);

/* Lets go of the folders without removing them. */
void cgroup_leave(struct cgroup *cgroup);
