#pragma once
#include <sys/capability.h>

#include "sandbox/box/box.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/plan/plan.h"
#include "sandbox/workspace/protected.h"

/* What the child needs besides the plan. Prepared before the fork, because nothing allocates
 * between clone and execve. Descriptors are the server's and close on execve. */
struct child_setup {
    const struct plan *plan;
    cap_t no_capabilities;
    int go_fd; /* a byte from the server: the ids are mapped; another: the child is in the group */
    int error_fd;      /* a struct fail when a step fails, or end of file; see step_protect() */
    int init_fd;       /* init's socket */
    int config_fd;     /* init's settings */
    int program_fd;    /* init's program */
    const int *tasks;  /* cgroup_open_tasks(), or NULL */
    const int *taken;  /* by slot: a tree whose ids are mapped, or -1; NULL: no tree is mapped */
    bool counts_files; /* the program gets WIRE_FILES_FD */
};

/* The layers of an overlay, for init; -1: none. */
struct child_layers {
    int upper_fd;
    int lower_fd;
    int store_fd;
    int overlay_fd; /* of fspick(2) */
};

/* Carries out the plan. Leaves only by executing init or by _exit. */
__attribute__((noreturn)) void child_main(const struct child_setup *setup);

/* Cores of this process and its descendants then hold registers and names, but no memory.
 * RLIMIT_CORE (policy/rlimits.h) is enough where core_pattern names a file or a pipe. Where it
 * names a socket, Linux 6.16 and newer check no limit and connect to the host's service at each
 * crash (coredump_socket() in fs/coredump.c). The setting is inherited over fork and execve(2),
 * core(5); Landlock keeps the guest from changing it. Best effort: without CONFIG_ELF_CORE the file
 * does not exist, and a process that is not dumpable cannot write it. */
void child_leave_memory_out_of_cores(void);

/* What the child has while it carries out the plan. */
struct child {
    const struct child_setup *setup;
    int trees[PLAN_TREES];
    int files_fd; /* WIRE_FILES_FD; -1: none */
    int user_sysctl_fd;
    int disk_fd;
    int machine_fd;  /* WIRE_MACHINE_FD */
    int covers_fd;   /* the same, read-only: what covers parts of /proc */
    int memory_fd;   /* WIRE_MEMORY_FD; -1: none */
    int output_fd;   /* -1: init opens the directory by its path, or there is none */
    pid_t terminals; /* the process that makes them */
    struct child_layers layers;
    mode_t umask;      /* the server's, which is the user's */
    bool without_proc; /* whether a new one was refused and the plan continued */
    struct box_protected found;
};

/* 0, or -1 with errno. */
typedef int (*child_step_fn)(struct child *child, const struct plan_step *step);

/* child_root.c; NULL: a step of child.c. */
extern const child_step_fn child_root_steps[PLAN_KIND_COUNT];

/* child_root.c: targets are absolute in the plan; while the root is built, it is the working
 * directory. */
const char *child_below_root(const char *target);
/* Makes it, and what is missing above it. */
int child_make_directory(const char *path, unsigned mode);
/* Mounts a tree at path, with MOUNT_ATTR_* in addition to those that it has. */
int child_move_tree(int tree_fd, const char *path, uint64_t attributes);

/* child.c: PLAN_PROC and PLAN_PROCESSORS. */
int child_proc(struct child *child, const struct plan_step *step);
int child_processors(struct child *child, const struct plan_step *step);

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
