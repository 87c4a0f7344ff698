#include "base/clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now = {};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock, clock_gettime(2) */
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    struct timespec now = {};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * (int64_t)CLOCK_NS_PER_S + now.tv_nsec;
}
