#pragma once
#include <sys/capability.h>

#include "sandbox/plan/plan.h"

/* What the child needs besides the plan; prepared before the fork, because between clone and
 * execve nothing allocates. Descriptors are the server's and close on execve. */
struct child_setup {
    const struct plan *plan;
    cap_t no_capabilities;
    int go_fd;      /* a byte: ids are mapped; another: the control group is joined */
    int error_fd;   /* a struct fail when a step does not work; end of file when all did. With code
                     0 it is a step's finding: see child_protect() */
    int init_fd;    /* pid 1's socket */
    int config_fd;  /* pid 1's settings */
    int program_fd; /* pid 1's program */
    const int *taken; /* by slot: a tree whose ids are mapped, or -1; NULL: none is */
};

/* Closes all that is not ours. The server's ends of our own pipes are among the rest: as long as they
 * are open here, its end would not be noticed at ours. */
void child_keep_own(const struct child_setup *setup);

/* PLAN_PROTECT. Tells the server by a struct fail with code 0 and a struct box_protected as its text. 0, or -1 with
 * errno. */
int child_protect(const struct child_setup *setup, const struct plan_step *step,
                  struct box_protected *found);

/* Carries out the plan; returns only by executing pid 1 or by _exit. */
__attribute__((noreturn)) void child_main(const struct child_setup *setup);

/* From here on a core of this process and of all that come from it holds registers and names, and no memory.
 * RLIMIT_CORE (confine/rlimits.h) is enough where core_pattern names a file or a pipe. Where it names a socket,
 * Linux 6.16 and newer look at no limit and connect to the host's service at each crash (coredump_socket() in
 * fs/coredump.c). Inherited over fork and execve(2), core(5); Landlock keeps the guest from changing it. Best
 * effort: without CONFIG_ELF_CORE there is no such file, and no process that is not dumpable can write it. */
void child_leave_memory_out_of_cores(void);
