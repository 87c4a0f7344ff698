#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Which older checkpoints stay: the server's part of the policy that sandbox/checkpoint_policy.h
 * describes. Pure. */

struct checkpoint_memory {
    uint64_t limit_bytes;
    uint64_t used_bytes;  /* in the sandbox; 0: nothing counts it, or little is in use */
    uint64_t state_bytes; /* of the interpreter; 0: less than the guest reports */
    bool unaffordable;    /* the guest forks no checkpoint of it */
};

/* How many of the steps of undo, the oldest first, make space. */
unsigned checkpoint_steps_to_drop(const struct checkpoint_memory *memory, unsigned steps);

/* How many steps of undo this limit of processes allows. */
unsigned checkpoint_steps_most(uint32_t pids);

/* Whether the newest checkpoint of a running interpreter makes way. held_bytes: of checkpoints
 * alone, the older ones being gone. */
bool checkpoint_makes_way(const struct checkpoint_memory *memory, uint64_t held_bytes);

/* Whether older states make way for a running interpreter, one after the other. */
bool checkpoint_older_make_way(const struct checkpoint_memory *memory, uint64_t held_bytes);

/* Whether so much is in use that states may have to make way. */
bool checkpoint_memory_is_full(const struct checkpoint_memory *memory);

/* Whether the status line warns. */
bool checkpoint_memory_is_short(const struct checkpoint_memory *memory);
