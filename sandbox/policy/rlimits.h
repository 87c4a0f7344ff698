#pragma once
#include <stdint.h>

/* The resource limits of every guest process, as data: init sets them, and the server compares the
 * self-test's results with them. */

struct rlimit_wanted {
    int which; /* RLIMIT_* */
    const char *name;
    uint64_t soft;
    uint64_t hard;
};

enum { RLIMITS_MOST = 12, RLIMITS_SIGPENDING = 256 };

struct rlimit_sizes {
    uint64_t file_bytes; /* largest file */
    uint64_t data_bytes; /* private memory per process where nothing limits the sum; else 0 */
    uint32_t pids_max;   /* processes where no cgroup counts them, else 0 */
};

/* Fills wanted and returns how many there are. */
unsigned rlimits_wanted(const struct rlimit_sizes *sizes,
                        struct rlimit_wanted wanted[RLIMITS_MOST]);
