#pragma once
#include <stdint.h>

#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t clock_now_ns(void);

/* As people count them: what took 0.99 s took a second. */
static inline unsigned clock_seconds(uint64_t ns)
{
    return (unsigned)((ns + CLOCK_NS_PER_S / 2) / CLOCK_NS_PER_S);
}

/* CLOCK_REALTIME: nanoseconds since 1970. */
int64_t clock_wall_ns(void);
