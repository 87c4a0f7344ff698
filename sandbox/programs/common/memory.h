#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct processes;
struct wire_request;

enum { MEMORY_WATCH_MS = 50, MEMORY_CLOSE_MS = 10, MEMORY_UNCOUNTED_MS = 1000 };

struct memory_watch {
    struct processes *processes;
    uint64_t limit_bytes;
    const char *tmp;        /* on the file system of all that code writes, where that is a tmpfs of
                               the sandbox; else NULL */
    bool scratch;           /* code writes to the scratch directory instead */
    uint64_t scratch_bytes; /* how much of that is in memory at the moment */
};

/* Where no cgroup counts memory, adds up what all processes use, and kills the largest above the
 * limit. Soft: it scans every MEMORY_WATCH_MS, or MEMORY_CLOSE_MS after it has returned true,
 * because more than half of the limit is used, and it grows. */
bool watch_memory(const struct memory_watch *watch);
/* What that has found last; too much while it is far below the limit. */
uint64_t memory_seen(void);
/* Where a control group counts: see WIRE_RANK. Responds. */
void watch_rank(struct processes *processes, const struct wire_request *request, pid_t pid);
/* The same as watch_memory() for what a control group that counts memory omits: file locks, and in
 * version 1 also sockets: inet_bytes for each. */
void watch_uncounted(struct processes *processes, uint64_t limit_bytes, uint64_t inet_bytes);
