/* Where the code is when memory runs out.
 *
 * The kernel kills without a word, so the place must be known before: while code runs the memory in use
 * is looked at, the more often the less is left, and from three quarters of the limit on each growth by
 * a part of what is left makes the interpreters write down where they are. The one that dies tells by
 * what it wrote last. Where no control group counts, pid 1 asks the one it is about to kill. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/loop.h"
#include "tools/outcome.h"
#include "tools/session_inside.h"

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

/* Takes what has been written down. Returns false when that is not all of it. */
static bool memory_answer(struct session *session)
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

/* Asks where the code is, when it uses more by a part of what is left than when it was last asked. */
static void memory_ask(struct session *session, uint64_t used_bytes, uint64_t step_bytes)
{
    struct memory_trace *trace = &session->trace;
    uint64_t now_ns = clock_now_ns();
    if (trace->waiting && !memory_answer(session) &&
        now_ns - trace->asked_ns < LIMIT_MEMORY_ANSWER_MS * CLOCK_NS_PER_MS) {
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

static void memory_look(void *arg)
{
    struct sessions *sessions = arg;
    struct box *box = workspace_box(sessions->workspace);
    uint64_t limit = workspace_spec(sessions->workspace)->limits.memory_bytes;
    uint64_t used = box && any_runs(sessions) ? box_memory_used(box, limit - limit / 4) : 0;
    if (used == 0) {
        return; /* nothing runs, and the next run looks again; or no control group counts */
    }
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
    if (!sessions->memory_timer.loop || sessions->memory_timer.deadline_ns > first_ns) {
        loop_timer_arm(sessions->loop, &sessions->memory_timer, first_ns, memory_look, sessions);
    }
}

void session_memory_place(struct session *session, const struct box_end *end)
{
    struct memory_trace *trace = &session->trace;
    bool ran = session->state == SESSION_RUNNING || session->state == SESSION_INTERRUPTED;
    if (!ran || session->unsent || end->kind != BOX_END_OOM) {
        return;
    }
    if (trace->asked_bytes == 0) {
        trace->waiting = true; /* if it was asked, then by pid 1 as its last */
        trace->asked_bytes = end->limit_bytes;
    }
    if (trace->waiting) {
        (void)memory_answer(session);
    }
    /* What was written too long before the end may be another place. */
    if (trace->place_bytes >= end->limit_bytes - end->limit_bytes / 8) {
        outcome_take_place(session->current, trace->place);
    }
}
