#pragma once
#include <stdint.h>

struct processes;

/* What counts for the sandbox because it takes too much of what the machine has only so much of:
 * more than limit, in bytes, or 0. sockets: the sandbox's. */
uint64_t crowd_bytes(const struct processes *processes, uint64_t sockets, uint64_t limit);
