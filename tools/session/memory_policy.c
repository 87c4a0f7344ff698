#include "tools/session/memory_policy.h"

#include "sandbox/sandbox.h"

static bool reaches(uint64_t bytes, unsigned percent, uint64_t limit_bytes)
{
    return bytes / percent >= limit_bytes / 100;
}

unsigned checkpoint_steps_to_drop(const struct checkpoint_memory *memory, unsigned steps)
{
    uint64_t limit = memory->limit_bytes;
    uint64_t state = memory->state_bytes;
    uint64_t used = memory->used_bytes ? memory->used_bytes : 2 * state;
    if (used + state > limit || reaches(used, CHECKPOINT_FULL_PERCENT, limit)) {
        return steps;
    }
    return steps > 0 && (memory->unaffordable || reaches(used, CHECKPOINT_CROWDED_PERCENT, limit));
}

unsigned checkpoint_steps_most(uint32_t pids)
{
    return pids / CHECKPOINT_STEP_PIDS;
}

bool checkpoint_memory_is_short(const struct checkpoint_memory *memory)
{
    return reaches(memory->used_bytes, CHECKPOINT_WARN_PERCENT, memory->limit_bytes);
}

bool checkpoint_memory_is_full(const struct checkpoint_memory *memory)
{
    return reaches(memory->used_bytes, CHECKPOINT_YIELD_PERCENT, memory->limit_bytes);
}

bool checkpoint_older_make_way(const struct checkpoint_memory *memory, uint64_t held_bytes)
{
    return checkpoint_memory_is_full(memory) &&
           reaches(held_bytes, CHECKPOINT_HELD_PERCENT, memory->limit_bytes);
}

bool checkpoint_makes_way(const struct checkpoint_memory *memory, uint64_t held_bytes)
{
    return checkpoint_older_make_way(memory, held_bytes) &&
           reaches(memory->state_bytes, CHECKPOINT_STATE_PERCENT, memory->limit_bytes) &&
           2 * held_bytes + memory->state_bytes >= memory->used_bytes;
}
