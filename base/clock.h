#pragma once
#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

static inline int64_t clock_read_ns(clockid_t clock)
{
    struct timespec now = {};
    (void)clock_gettime(clock, &now); /* cannot fail for these clocks, clock_gettime(2) */
    return now.tv_sec * (int64_t)CLOCK_NS_PER_S + now.tv_nsec;
}

/* CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t clock_now_ns(void)
{
    return (uint64_t)clock_read_ns(CLOCK_MONOTONIC);
}

/* As people count them: what took 0.99 s took a second. */
static inline unsigned clock_seconds(uint64_t ns)
{
    return (unsigned)((ns + CLOCK_NS_PER_S / 2) / CLOCK_NS_PER_S);
}

/* CLOCK_REALTIME: nanoseconds since 1970. */
static inline int64_t clock_wall_ns(void)
{
    return clock_read_ns(CLOCK_REALTIME);
}

/* Now, by the clock of file times: its ticks are behind the precise clock, clock_gettime(2). */
static inline int64_t clock_file_ns(void)
{
    return clock_read_ns(CLOCK_REALTIME_COARSE);
}
