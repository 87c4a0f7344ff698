#pragma once
#include <linux/seccomp.h>

struct filter_program;

/* What a compiled filter answers to a call that no kernel sees: an errno, or one of these. Programs
 * of other architectures can be asked as well. */
enum {
    PROGRAM_ALLOW = 0,
    PROGRAM_KILL = -1,
    PROGRAM_ASK = -2,
    PROGRAM_PRETEND = -3, /* the errno is 0: as if it were done */
};

int program_action(const struct filter_program *filter, const struct seccomp_data *call);
