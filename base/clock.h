#pragma once
#include <stdint.h>

#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t clock_now_ns(void);

/* CLOCK_REALTIME: nanoseconds since 1970. */
int64_t clock_wall_ns(void);
