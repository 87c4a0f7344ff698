#pragma once
#include "sandbox/sandbox.h"

struct loop;
struct tool_entry;

/* The program of a tool server, as its entry in the file has it. All is borrowed. */
struct tool_start {
    struct loop *loop;
    const struct box_spec *spec;
    const struct tool_entry *entry;
    void (*on_exit)(void *arg, const char *why); /* as box_program_start() has it */
    void *arg;
};

/* Refuses a program that code could change. ret_fds: its stdin, stdout and stderr, as
 * box_program_start() has them. */
int tool_start(const struct tool_start *start, struct box_program **ret_program, int ret_fds[3],
               struct fail *ret_fail);
