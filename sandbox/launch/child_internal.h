#pragma once
#include "sandbox/launch/child.h"

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

/* child_machine.c: PLAN_PROC and PLAN_PROCESSORS. */
int child_proc(struct child *child, const struct plan_step *step);
int child_processors(struct child *child, const struct plan_step *step);

/* Bounds what the sockets of the caller's network namespace can hold, as far as the kernel allows.
 * Needs /proc and the namespace's capabilities. */
void sysctls_bound_sockets(void);

/* PLAN_NO_NAMESPACES: no further namespaces, and few of what is counted for the user. */
int sysctls_bound_user(struct child *child, const struct plan_step *step);
