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

enum { RLIMITS_MOST = 12 };

/* file_bytes: largest file. pids_max: processes where no control group counts them, else 0.
 * Fills wanted and returns how many there are. */
unsigned rlimits_wanted(uint64_t file_bytes, uint32_t pids_max,
                        struct rlimit_wanted wanted[RLIMITS_MOST]);
