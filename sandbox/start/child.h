#pragma once
#include <sys/capability.h>

#include "sandbox/plan/plan.h"

/* What the child needs besides the plan; prepared before the fork, because between clone and
 * execve nothing allocates. Descriptors are the server's and close on execve. */
struct child_setup {
    const struct plan *plan;
    cap_t no_capabilities;
    int go_fd;        /* a byte: ids are mapped; another: the control group is joined */
    int error_fd;     /* a struct fail when a step does not work; end of file when all did */
    int init_fd;      /* pid 1's socket */
    int config_fd;    /* pid 1's settings */
    int program_fd;   /* pid 1's program */
    const int *taken; /* by slot: a tree whose ids are mapped, or -1; NULL: none is */
};

/* Carries out the plan; returns only by executing pid 1 or by _exit. */
__attribute__((noreturn)) void child_main(const struct child_setup *setup);
