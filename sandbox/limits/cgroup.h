#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "sandbox/types.h"

/* The control group of a sandbox, version 1 or 2 behind one interface. Nothing here is required:
 * the state of a controller tells what is missing. Kernel: Documentation/admin-guide/cgroup-v1 and
 * cgroup-v2. */

enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLERS };

enum { CGROUP_DIRECTORIES = CGROUP_CONTROLLERS };

struct cgroup {
    char name[64]; /* of the directory, the same below each parent; empty: none */
    int parent_fds[CGROUP_DIRECTORIES]; /* distinct parent directories */
    int fds[CGROUP_DIRECTORIES];        /* the directory below each parent; -1: not made */
    unsigned directory_count;
    int controller_parent[CGROUP_CONTROLLERS]; /* index of its parent directory, or -errno */
    int controller_fd[CGROUP_CONTROLLERS];     /* borrowed from fds; -1: not available */
    char why[CGROUP_CONTROLLERS][160];         /* why it is not available */
    const char *remedy;                        /* static: the fix */
    bool unified;
    bool wants_scope;   /* the server may not divide its cgroup, but systemd may provide a scope */
    bool is_scope;      /* systemd's scope is fds[0]; there is no parent directory of ours */
    bool counts_inet;   /* buffers of TCP and UDP */
    int used_fd;        /* of the file that tells how much memory is in use; 0 or -1: not open */
    uint64_t oom_kills; /* the last count */
    uint64_t cached;    /* bytes of cached files at the last check */
    uint64_t slow_from; /* see cgroup_memory_slow() */
    /* The server's own cgroup, whose limit counts where the sandbox has none. */
    int enclosing_fd;
    bool enclosing_watched;
    bool enclosing_unified;
    uint64_t enclosing_kills;
};

/* Finds the parent directories and a name but makes nothing yet, so that the cleanup helper knows
 * of the directories before they exist. Never fails: cgroup_has() tells what is missing.
 * wants_scope is set where the server's cgroup belongs to systemd: then call scope_ask(), and one
 * of the next two functions with its result. */
void cgroup_find(struct cgroup *cgroup);

/* pid is in the requested scope: uses the scope as far as it has the limits. 0 or -errno. */
int cgroup_take_scope(struct cgroup *cgroup, pid_t pid, const struct box_limits *limits);
/* There is no scope. */
void cgroup_refuse_scope(struct cgroup *cgroup, const char *why);

/* Makes the directories and sets the limits. */
void cgroup_make(struct cgroup *cgroup, const struct box_limits *limits);

bool cgroup_has(const struct cgroup *cgroup, enum cgroup_controller controller);

/* The cgroup in which clone3(2) can create a child, CLONE_INTO_CGROUP (Linux 5.7, version 2 only):
 * borrowed, or -1. */
int cgroup_clone_fd(const struct cgroup *cgroup);

/* Opens, for each directory of version 1, the file to which a process with one thread writes "0" to
 * move itself: the kernel moves any other only after a grace period of RCU, some 15 ms in which no
 * process on the machine can fork (Linux 5.5 and newer, cgroup_procs_write_start() in
 * kernel/cgroup/cgroup.c). ret_fds: -1 where there is none. Returns whether they are enough. */
bool cgroup_open_tasks(const struct cgroup *cgroup, int ret_fds[CGROUP_DIRECTORIES]);

/* Moves the process to the cgroup before it runs anything. 0 or -errno. */
int cgroup_attach(const struct cgroup *cgroup, pid_t pid);

/* Whether the kernel has killed a process for memory since the last call: in the sandbox's cgroup,
 * or, where that does not count memory, in the server's. */
bool cgroup_oom_happened(struct cgroup *cgroup);
/* Whether cgroup_oom_happened() will report a kill in the sandbox's cgroup. */
bool cgroup_oom_is_new(const struct cgroup *cgroup);
/* The highest number of bytes in use; 0: unknown, as before Linux 5.19. */
uint64_t cgroup_memory_peak(const struct cgroup *cgroup);

/* Bytes in use; above matters_bytes, without cached files that the kernel could reclaim, which
 * takes longer to find out. 0: unknown. */
uint64_t cgroup_memory_used(struct cgroup *cgroup, uint64_t matters_bytes);

/* While more than from_bytes and cached files are in use, makes processes that allocate wait, the
 * more the longer they go on: memory.high, version 2 since Linux 5.4. 0: no longer. Elsewhere it
 * has no effect. */
void cgroup_memory_slow(struct cgroup *cgroup, uint64_t from_bytes);

/* Bytes of processes' own pages, without files; 0: unknown. */
uint64_t cgroup_memory_pages(const struct cgroup *cgroup);
/* Bytes of its files in memory, shared memory included; 0: not known. */
uint64_t cgroup_memory_files(const struct cgroup *cgroup);
/* Opens the figures of its memory for reading: memory.stat, or -1. */
int cgroup_open_memory(const struct cgroup *cgroup);
/* Numbers of the processes whose memory counts, one a line. Length, or -errno: also of a longer
 * list. */
int cgroup_processes(const struct cgroup *cgroup, char *text, size_t size);

/* Bytes of memory for one TCP or UDP socket that the cgroup does not count. Even where it counts
 * buffers, version 1 leaves out one packet in each direction (__sk_mem_raise_allocated() in
 * net/core/sock.c). */
uint64_t cgroup_uncounted_inet(const struct cgroup *cgroup);

/* Removes the directories if they are empty, and closes their descriptors. */
void cgroup_remove(struct cgroup *cgroup);

/* How many cgroups of dead servers lie beside this one's. After cgroup_find(). */
unsigned cgroup_count_stale(const struct cgroup *cgroup);

/* Closes the descriptors without removing the directories. */
void cgroup_leave(struct cgroup *cgroup);

/* The default memory limit: a quarter of the memory of a machine, or of the container or service
 * that encloses the server, if that has less; at least 1 GiB, at most 8 GiB, and a multiple of 256
 * MiB, so that it does not depend on what the kernel keeps for itself. enclosing_bytes: 0: none. */
uint64_t box_memory_default(uint64_t machine_bytes, uint64_t enclosing_bytes);

/* Decides the memory limit, once for all that enforce or report it: the default unless the user has
 * given one. Sets spec's memory_enclosing to the limit of the server's cgroups, and reduces the
 * memory limit to at most three quarters of that: at the enclosing limit the kernel may kill
 * everything in the cgroup, including the server (memory.oom.group, cgroups(7)). */
void box_memory_fit(struct box_spec *spec, bool is_given);

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

/* A transient systemd scope for a sandbox: where an ordinary user or root may not divide the cgroup
 * that the server was started in, the manager that owns it makes a scope with the sandbox's limits
 * and moves the sandbox's init there. See cgroup_place.c. A struct scope starts zeroed. */

/* error: NULL, or why there is no scope. Called once, from the loop. */
typedef void (*scope_fn)(void *arg, const char *error);

struct scope {
    struct loop *loop; /* NULL: no request is running */
    pid_t helper_pid;
    int said_fd;
    struct loop_io said_io;
    struct loop_timer timer;
    uint64_t deadline_ns;
    pid_t pid;
    char unit[80];
    char said[160]; /* what busctl wrote to stderr */
    scope_fn fn;
    void *arg;
};

struct scope_request {
    const char *program; /* busctl: an absolute path */
    const char *name;    /* the unit's name without .scope */
    pid_t pid;           /* a child of the server */
    const struct box_limits *limits;
    unsigned within_ms; /* time limit for the request */
};

/* Requests the scope; borrows request for the call only. 0 or -errno: then fn is not called.
 * -EXDEV: the manager runs in another pid namespace. */
int scope_ask(struct scope *scope, struct loop *loop, const struct scope_request *request,
              scope_fn fn, void *arg);

/* Stops waiting for the scope. Idempotent. */
void scope_cancel(struct scope *scope);

/* Whether the process that listens at this path is in another pid namespace: SO_PEERCRED gives the
 * peer's number in our namespace, unix(7), and 0 where it has none. */
bool scope_is_elsewhere(const char *path);

/* Marks a cgroup, an open directory, as a living server's until fd is closed. */
void cgroup_hold(int fd);

/* Finds cgroups in a parent whose server was killed together with its cleanup helper, and removes
 * them on request. Only empty ones can be removed. Returns how many there were. */
unsigned cgroup_sweep_stale(int parent_fd, bool remove);
