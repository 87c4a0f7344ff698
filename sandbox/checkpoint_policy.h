#pragma once
#include <stdint.h>

/* How much memory and how many processes checkpoints may take: the whole policy.
 *
 * A checkpoint is a suspended fork of the interpreter. It costs nothing until the live process
 * writes to a page; at worst the next call replaces the whole state, and both have a copy of it.
 *
 * - The guest (guest/checkpoint.py) measures a state when the interpreter's peak reaches
 *   CHECKPOINT_MEASURE_PERCENT, and reports the size with the result. Where no cgroup counts, it
 *   forks no checkpoint of a state above checkpoint_uncounted_most(). It
 *   receives both thresholds in bytes with the session request.
 * - While code runs and the sandbox uses CHECKPOINT_YIELD_PERCENT, the server looks how much memory
 *   only checkpoints hold. If that is CHECKPOINT_HELD_PERCENT, older states make way, one after the
 *   other: steps of undo, then named states, the oldest first. The newest checkpoint makes way only
 *   if the state is above CHECKPOINT_STATE_PERCENT, so that two copies cannot fit, and the memory
 *   went to its private pages rather than to what the code has allocated: rewriting a large array
 *   in place works. Otherwise the live process dies first, and the state of before is there.
 * - As long as a state can make way, a control group of version 2 slows down code that allocates
 *   above CHECKPOINT_YIELD_PERCENT (memory.high): it needs tens of seconds to the limit, and the
 *   server milliseconds. Version 1 can only stop code at the limit itself (memory.oom_control):
 *   init, which has to kill the states, would stop too, and system calls would fail with ENOMEM.
 *   So there the server only checks every few milliseconds, and fast code may be first.
 * - The server (tools/session/history.c) decides which older checkpoints stay. It drops
 *   the oldest step of undo when the sandbox uses CHECKPOINT_CROWDED_PERCENT or the state got no
 *   checkpoint, and all steps when it uses CHECKPOINT_FULL_PERCENT or a copy of the state would
 *   exceed the limit. Where no cgroup counts, twice the state's size stands for the use. Every step
 * must be backed by CHECKPOINT_STEP_PIDS of the process limit.
 * - The server reports the use in the result from CHECKPOINT_WARN_PERCENT on.
 * - Where no cgroup counts, init's watchdog (programs/common/memory.c) leaves out
 *   CHECKPOINT_STATE_PERCENT of each checkpoint: most of its pages are the live process's too. What
 *   is above counts, so that code which passes for a checkpoint hides no more. A state of up to
 *   checkpoint_uncounted_most() can be rewritten in place beside its checkpoint: one copy, of the
 *   other what is above the half, and the sandbox's own processes are within the limit. All
 *   checkpoints together may have as much; where they have more and the limit no space for it, the
 *   oldest makes way of which its session has a later one.
 * - Init (programs/common/processes.c) gives each process its oom_score_adj, so the kernel
 *   decides in this order: the live process with all that it started, then checkpoints, then init
 *   and the zygote. The guest cannot do this: under Landlock /proc is read-only to it.
 *
 * Percentages are of --memory. */
enum {
    CHECKPOINT_CROWDED_PERCENT = 50,
    CHECKPOINT_FULL_PERCENT = 75,
    CHECKPOINT_WARN_PERCENT = 80,
    CHECKPOINT_YIELD_PERCENT = 90,
    CHECKPOINT_HELD_PERCENT = 4, /* less does not matter, and could be the zygote's */
    /* Twice this is "crowded": the server needs no size below it. */
    CHECKPOINT_MEASURE_PERCENT = CHECKPOINT_CROWDED_PERCENT / 2,
    CHECKPOINT_STATE_PERCENT = 50,
    CHECKPOINT_OTHERS_BYTES = 48 << 20, /* of the zygote, its spare and init, at most */
    CHECKPOINT_STEP_PIDS = 16,          /* processes of --pids, for each step of undo */
};

/* For /proc/PID/oom_score_adj: a higher score dies first, proc(5). Init and the zygote have 0. */
#define CHECKPOINT_OOM_SCORE_LIVE "1000"
#define CHECKPOINT_OOM_SCORE_SUSPENDED "300"

static inline uint64_t checkpoint_bytes(uint64_t limit_bytes, unsigned percent)
{
    return limit_bytes / 100 * percent;
}

/* The largest state that gets a checkpoint where no cgroup counts. */
static inline uint64_t checkpoint_uncounted_most(uint64_t limit_bytes)
{
    uint64_t all = checkpoint_bytes(limit_bytes, 100 + CHECKPOINT_STATE_PERCENT);
    uint64_t half = checkpoint_bytes(limit_bytes, CHECKPOINT_STATE_PERCENT);
    uint64_t most = all > CHECKPOINT_OTHERS_BYTES ? (all - CHECKPOINT_OTHERS_BYTES) / 2 : 0;
    return most > half ? most : half;
}
