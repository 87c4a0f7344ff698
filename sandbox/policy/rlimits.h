#pragma once
#include <stdint.h>

/* The resource limits of every process of the guest, as data: pid 1's program sets them, the server
 * judges by them what the start-up proof found. */

struct rlimit_wanted {
    int which; /* RLIMIT_* */
    const char *name;
    uint64_t soft;
    uint64_t hard;
};

enum { RLIMITS_MOST = 12, RLIMITS_NOFILE = 512 };

struct rlimit_sizes {
    uint64_t file_bytes; /* largest file */
    uint64_t data_bytes; /* private memory of one process, where no namespace bounds all; else 0 */
    uint32_t pids_max;   /* processes where no control group counts them, else 0 */
};

/* Fills wanted and returns how many there are. */
unsigned rlimits_wanted(const struct rlimit_sizes *sizes,
                        struct rlimit_wanted wanted[RLIMITS_MOST]);
