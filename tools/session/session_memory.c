/* What makes way when memory gets short, and where the code is when it runs out.
 *
 * The kernel kills without a report, so the place must be known before. While code runs, the server
 * checks the memory in use, more often when less is left. From three quarters of the limit on, each
 * growth by a part of what is left makes the interpreters write a trace. The last trace of the one
 * that dies shows the place. Where no control group counts, init requests a trace from the
 * interpreter that it is about to kill. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "tools/run/outcome.h"
#include "tools/session/memory_policy.h"
#include "tools/session/session_internal.h"

/* Filling the memory takes longer: after shorter calls nothing was killed. */
enum { KILLED_MS = 20 };

static bool is_running(const struct session *session)
{
    return session->state == SESSION_RUNNING && session->guest;
}

static bool any_runs(const struct sessions *sessions)
{
    const struct session *session = sessions->list;
    while (session && !is_running(session)) {
        session = session->next;
    }
    return session != NULL;
}

/* Takes the trace. Returns false when it is not complete. */
static bool memory_take_trace(struct session *session)
{
    struct memory_trace *trace = &session->trace;
    char text[8192];
    (void)box_session_traced(session->guest, text, sizeof text);
    const char *line = strstr(text, "File \"<cell ");
    const char *end = line ? strchr(line, '\n') : NULL;
    if (!end && !outcome_trace_is_whole(text)) {
        return false;
    }
    trace->waiting = false;
    trace->place_bytes = trace->asked_bytes;
    (void)snprintf(trace->place, sizeof trace->place, "%.*s", end ? (int)(end + 1 - line) : 0,
                   end ? line : "");
    return true;
}

/* Requests a trace if the memory in use has grown by step_bytes since the last one. */
static void memory_ask(struct session *session, uint64_t used_bytes, uint64_t step_bytes)
{
    struct memory_trace *trace = &session->trace;
    uint64_t now_ns = clock_now_ns();
    if (trace->waiting && !memory_take_trace(session) &&
        now_ns - trace->asked_ns < LIMIT_MEMORY_REPORT_MS * CLOCK_NS_PER_MS) {
        return;
    }
    trace->floor_bytes = used_bytes < trace->floor_bytes ? used_bytes : trace->floor_bytes;
    if (used_bytes - trace->floor_bytes < step_bytes ||
        !box_session_trace_at_work(session->guest)) {
        return;
    }
    if (used_bytes < trace->asked_bytes) {
        trace->place_bytes = 0; /* of another growth, before some of it was freed */
    }
    trace->waiting = true;
    trace->asked_ns = now_ns;
    trace->asked_bytes = used_bytes;
    trace->floor_bytes = used_bytes;
}

/* Names of states dropped one after the other go into one list. */
static void session_tell_dropped(struct session *session, const char *name)
{
    if (session->next_result.before[0] && session->next_result.tells_dropped) {
        buf_extend(session->next_result.before, sizeof session->next_result.before, ", \"%s\"",
                   name);
    } else {
        session_tell(session, "memory was short, named states dropped: \"%s\"", name);
        session->next_result.tells_dropped = true;
    }
}

/* Drops the oldest step of undo, or else the oldest named state. Returns whether there was one. */
static bool session_yield(struct session *session)
{
    char name[HISTORY_NAME_BYTES];
    bool dropped = history_make_way(&session->history);
    session->next_result.lost_steps |= dropped;
    if (!dropped && history_drop_oldest(&session->history, name)) {
        session_tell_dropped(session, name);
        dropped = true;
    }
    if (dropped) {
        session_keep(session);
    }
    return dropped;
}

/* Gives up the checkpoint of the current state. Returns whether there was one. */
static bool session_give_up(struct session *session)
{
    bool given = box_session_give_up(session->guest);
    if (given) {
        session->safe = (struct history_state){};
        session->gave_up = true;
    }
    return given;
}

/* Lets older states make way, or else the newest checkpoint, if that helps; see
 * sandbox/checkpoint_policy.h. The next check sees the effect. Returns false if nothing is left
 * that could make way. */
static bool memory_make_way(struct sessions *sessions, struct box *box, uint64_t used_bytes)
{
    struct checkpoint_memory memory = {
        .limit_bytes = server_box_spec(sessions->server_box)->limits.memory_bytes,
        .used_bytes = used_bytes,
    };
    uint64_t held = 0;
    if (!checkpoint_memory_is_full(&memory) || !box_memory_of_checkpoints(box, &held)) {
        return true;
    }
    if (!checkpoint_older_make_way(&memory, held)) {
        return false;
    }
    /* First those of the sessions whose code runs: it fills the memory. */
    for (unsigned pass = 0; pass < 2; pass++) {
        for (struct session *session = sessions->list; session; session = session->next) {
            bool first = is_running(session);
            if (session->guest && first == (pass == 0) && session_yield(session)) {
                return true;
            }
        }
    }
    for (struct session *session = sessions->list; session; session = session->next) {
        memory.state_bytes = session->state_bytes;
        if (is_running(session) && checkpoint_makes_way(&memory, held) &&
            session_give_up(session)) {
            return true;
        }
    }
    return false;
}

/* While states can make way, code that allocates is slow: the server's time to check does not
 * decide whether they go before the kernel kills. */
static void memory_slow(const struct sessions *sessions, bool slow)
{
    struct box *box = server_box_get(sessions->server_box);
    uint64_t limit = server_box_spec(sessions->server_box)->limits.memory_bytes;
    if (box) {
        box_memory_slow(box, slow ? checkpoint_bytes(limit, CHECKPOINT_YIELD_PERCENT) : 0);
    }
}

static void memory_look(void *arg)
{
    struct sessions *sessions = arg;
    struct box *box = server_box_get(sessions->server_box);
    uint64_t limit = server_box_spec(sessions->server_box)->limits.memory_bytes;
    uint64_t used = box && any_runs(sessions) ? box_memory_used(box, limit - limit / 4) : 0;
    if (box) {
        box_memory_rank(box, used > limit / 4);
    }
    if (used == 0) {
        memory_slow(sessions, false);
        return; /* nothing runs, and the next run starts this again; or no control group counts */
    }
    memory_slow(sessions, memory_make_way(sessions, box, used));
    uint64_t left = used < limit ? limit - used : 0;
    uint64_t step = left / 4 > limit / 1024 ? left / 4 : limit / 1024;
    for (struct session *session = sessions->list; session; session = session->next) {
        if (is_running(session) && left <= limit / 4) {
            memory_ask(session, used, step);
        }
    }
    uint64_t pause_ms = left / LIMIT_MEMORY_GROWTH_BYTES_MS;
    pause_ms = pause_ms < LIMIT_MEMORY_LOOK_LEAST_MS ? LIMIT_MEMORY_LOOK_LEAST_MS : pause_ms;
    pause_ms = pause_ms > LIMIT_MEMORY_LOOK_MOST_MS ? LIMIT_MEMORY_LOOK_MOST_MS : pause_ms;
    loop_timer_in(sessions->loop, &sessions->memory_timer, pause_ms, memory_look, sessions);
}

void session_memory_watch(struct session *session)
{
    struct sessions *sessions = session->owner;
    uint64_t first_ns = clock_now_ns() + LIMIT_MEMORY_LOOK_FIRST_MS * CLOCK_NS_PER_MS;
    session->trace = (struct memory_trace){};
    session->gave_up = false;
    memory_slow(sessions, true);
    if (!sessions->memory_timer.loop || sessions->memory_timer.deadline_ns > first_ns) {
        loop_timer_arm(sessions->loop, &sessions->memory_timer, first_ns, memory_look, sessions);
    }
}

void session_memory_place(struct session *session, const struct box_end *end)
{
    struct memory_trace *trace = &session->trace;
    bool ran = session->state == SESSION_RUNNING || session->state == SESSION_INTERRUPTED;
    if (ran && end->kind == BOX_END_SIGNAL) {
        char text[8192];
        (void)box_session_traced(session->guest, text, sizeof text);
        const char *fatal = strstr(text, "Fatal Python error: ");
        outcome_take_place(session->current, fatal ? fatal : "");
    }
    if (!ran || end->kind != BOX_END_OOM) {
        return;
    }
    if (trace->asked_bytes == 0) {
        trace->waiting = true; /* if a trace was requested, init did it before the kill */
        trace->asked_bytes = end->limit_bytes;
    }
    if (trace->waiting) {
        (void)memory_take_trace(session);
    }
    /* A trace from long before the end may show another place. */
    if (trace->place_bytes >= end->limit_bytes - end->limit_bytes / 8) {
        outcome_take_place(session->current, trace->place);
    }
}

/* --- after a run --- */

/* Says in the run's result how far undo goes now, if steps made way. */
static void session_tell_steps(struct session *session)
{
    struct run *run = session->current;
    const char *before = run_fact(run, RUN_MEMORY);
    unsigned left = session->history.steps;
    if (!session->next_result.lost_steps) {
        return;
    }
    session->next_result.lost_steps = false;
    if (left > 0) {
        run_addf(run, RUN_MEMORY, "%s%sundo states dropped: `undo` can take back %u call%s",
                 before[0] ? before : "memory: ", before[0] ? "; " : "", left,
                 left == 1 ? "" : "s");
    } else {
        run_addf(run, RUN_MEMORY, "%s%sundo states dropped: `undo` cannot take back any call",
                 before[0] ? before : "memory: ", before[0] ? "; " : "");
    }
}

void session_state_crowded(struct session *session)
{
    struct run *run = session->current;
    bool dropped = session->next_result.lost_steps;
    session->next_result.lost_steps = false;
    while (history_make_way(&session->history)) {
        dropped = true;
    }
    if (dropped || session->history.named_count > 0) {
        run_addf(run, RUN_MEMORY, "memory: %s%s", dropped ? "undo states dropped" : "limit reached",
                 session->history.named_count > 0
                     ? "; named states use memory too, drop those you no longer need"
                     : "");
        session_keep(session);
    }
}

void session_state_gave_up(struct session *session)
{
    struct run *run = session->current;
    if (session->gave_up) {
        run_addf(
            run, RUN_MEMORY,
            "checkpoint: dropped to free memory: the call rewrote a state of %llu MiB: two "
            "copies exceed --memory %uM, a larger limit keeps one",
            (unsigned long long)(session->state_bytes >> 20),
            (unsigned)(server_box_spec(session->owner->server_box)->limits.memory_bytes >> 20));
    }
}

void session_state_make_space(struct session *session, const struct box_message *message)
{
    struct run *run = session->current;
    if (session->transient) {
        return;
    }
    uint64_t limit = server_box_spec(session->owner->server_box)->limits.memory_bytes;
    struct box *box = server_box_get(session->owner->server_box);
    const struct checkpoint_memory memory = {
        .limit_bytes = limit,
        .used_bytes = box ? box_memory_used(box, limit / 100 * CHECKPOINT_CROWDED_PERCENT) : 0,
        .state_bytes = box_message_number(message, "memory", 0),
        .unaffordable = box_message_number(message, "unprotected", 0) > 0,
    };
    unsigned limit_mib = (unsigned)(limit >> 20);
    session->state_bytes = memory.state_bytes;
    if (memory.unaffordable) {
        box_session_await_checkpoint(session->guest, 0);
        char then[48] = "loses the state";
        if (session->safe.cell > 0) {
            (void)snprintf(then, sizeof then, "restores the state after <cell %u>",
                           session->safe.cell);
        }
        run_addf(
            run, RUN_MEMORY,
            "checkpoint: none, no space for a state of %llu MiB under --memory %uM, a crash %s",
            (unsigned long long)(memory.state_bytes >> 20), limit_mib, then);
    } else if (clock_now_ns() - run->started_ns > KILLED_MS * CLOCK_NS_PER_MS && box &&
               box_memory_killed(box)) {
        run_addf(run, RUN_MEMORY,
                 "memory: limit reached (--memory %uM); a process that the code had "
                 "started was killed",
                 limit_mib);
    } else if (checkpoint_memory_is_short(&memory)) {
        run_addf(run, RUN_MEMORY, "memory: %llu of %u MiB in use",
                 (unsigned long long)(memory.used_bytes >> 20), limit_mib);
    }
    for (unsigned n = checkpoint_steps_to_drop(&memory, session->history.steps); n > 0; n--) {
        session->next_result.lost_steps |= history_make_way(&session->history);
    }
    session_tell_steps(session);
    session_keep(session);
}
