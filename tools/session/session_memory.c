/* Where the code is when memory runs out.
 *
 * The kernel kills without a report, so the place must be known before. While code runs, the server
 * checks the memory in use, more often when less is left. From three quarters of the limit on, each
 * growth by a part of what is left makes the interpreters write a trace. The last trace of the one
 * that dies shows the place. Where no control group counts, init requests a trace from the
 * interpreter that it is about to kill. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "tools/run/outcome.h"
#include "tools/session/checkpoint_policy.h"
#include "tools/session/session_internal.h"

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
            if (session->guest && first == (pass == 0) && session_state_yield(session)) {
                return true;
            }
        }
    }
    for (struct session *session = sessions->list; session; session = session->next) {
        memory.state_bytes = session->state_bytes;
        if (is_running(session) && checkpoint_makes_way(&memory, held) &&
            session_state_give_up(session)) {
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
    loop_timer_arm(sessions->loop, &sessions->memory_timer,
                   clock_now_ns() + pause_ms * CLOCK_NS_PER_MS, memory_look, sessions);
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
