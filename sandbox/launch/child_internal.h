#pragma once
#include "sandbox/launch/child.h"

/* What the child has while it carries out the plan. */
struct child {
    const struct child_setup *setup;
    int trees[PLAN_TREES];
    int files_fd; /* WIRE_FILES_FD; -1: none */
    int user_sysctl_fd;
    int disk_fd;
    int output_fd;   /* -1: init opens the directory by its path, or there is none */
    pid_t terminals; /* the process that makes them */
    struct child_layers layers;
    bool without_proc; /* whether a new one was refused and the plan continued */
    struct box_protected found;
};

/* 0, or -1 with errno. */
typedef int (*child_step_fn)(struct child *child, const struct plan_step *step);

/* child_root.c; NULL: a step of child.c. */
extern const child_step_fn child_root_steps[PLAN_KIND_COUNT];

/* Bounds what the sockets of the caller's network namespace can hold, as far as the kernel allows.
 * Needs /proc and the namespace's capabilities. */
void sysctls_bound_sockets(void);

/* PLAN_NO_NAMESPACES: no further namespaces, and few of what is counted for the user. */
int sysctls_bound_user(struct child *child, const struct plan_step *step);
