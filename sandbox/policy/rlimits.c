#include "sandbox/policy/rlimits.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "sandbox/protocol/init_protocol.h"

#define MIB (1UL << 20)

unsigned rlimits_wanted(const struct rlimit_sizes *sizes, struct rlimit_wanted wanted[RLIMITS_MOST])
{
    uint64_t file_bytes = sizes->file_bytes;
    const struct rlimit_wanted limits[] = {
        /* 1, not 0: where core_pattern is a pipe, 0 still starts the helper on the host, and 1 does
         * not. A file of one byte is not written either, core(5). For a socket see
         * launch/launch.h. */
        {RLIMIT_CORE, "core", 1, 1},
        /* Also limits the descriptors in flight, unix(7), which the host counts for the whole user:
         * with the usual 1024 a single process could use up what other programs of the user may
         * send. Docs: THREATS.md, counters per user. */
        {RLIMIT_NOFILE, "nofile", 512, 512},
        {RLIMIT_FSIZE, "fsize", file_bytes, file_bytes},
        {RLIMIT_MEMLOCK, "memlock", 65536, 65536},
        {RLIMIT_MSGQUEUE, "msgqueue", WIRE_TAG_ZYGOTE, WIRE_TAG_ZYGOTE},
        {RLIMIT_SIGPENDING, "sigpending", RLIMITS_SIGPENDING,
         RLIMITS_SIGPENDING}, /* POSIX timers too, timer_create(2) */
        /* "unlimited" would select a layout of the address space that is easy to guess. A thread's
         * stack gets the soft limit by default, pthread_create(3). */
        {RLIMIT_STACK, "stack", 8 * MIB, 64 * MIB},
        {RLIMIT_NICE, "nice", 0, 0},
        {RLIMIT_RTPRIO, "rtprio", 0, 0},
        /* within this user namespace since Linux 5.14, getrlimit(2) */
        {RLIMIT_NPROC, "nproc", sizes->pids_max, sizes->pids_max},
        /* writable private pages, getrlimit(2); RLIMIT_AS would also count what is only mapped */
        {RLIMIT_DATA, "data", sizes->data_bytes, sizes->data_bytes},
    };
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        bool absent = (limits[i].which == RLIMIT_NPROC && sizes->pids_max == 0) ||
                      (limits[i].which == RLIMIT_DATA && sizes->data_bytes == 0);
        if (!absent) {
            wanted[count++] = limits[i];
        }
    }
    return count;
}
