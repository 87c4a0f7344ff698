#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/protocol/init_protocol.h"

/* What each session's processes use, and which session has to go when all together use too much:
 * of those that have grown lately, the one that has most. So one that only keeps what it has is
 * safe from another that grows in many small processes. */

enum { OWNERS = WIRE_TAGS + 2 };

struct owner {
    uint32_t tag; /* 0: processes of no session */
    uint64_t bytes;
    uint64_t base;   /* what it had before it has grown */
    uint64_t growth; /* lately: earlier growth counts less and less, and not once it has paused */
    uint64_t largest;
    pid_t largest_pid;
};

struct owners {
    struct owner list[OWNERS];
    unsigned count;
};

void owners_add(struct owners *owners, uint32_t tag, pid_t pid, uint64_t bytes);
/* Completes the growth since before, the same of an earlier look; its count is 0: there was none.
 * matters: less is noise, and counts when it has added up. */
void owners_grow(struct owners *owners, const struct owners *before, uint64_t matters);
/* Who has to go; NULL: there is none. grown: what owners_grow() has completed. */
const struct owner *owners_culprit(const struct owners *owners, const struct owners *grown);
