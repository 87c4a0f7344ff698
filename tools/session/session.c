/* Which sessions there are, their deadlines, and the end of a run. session_life.h shows the
 * states. */
#include "tools/session/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "tools/content/content.h"
#include "tools/run/run.h"
#include "tools/session/session_internal.h"

#define ASKED_MOST_NS (LIMIT_ELICITATION_MS * CLOCK_NS_PER_MS)

static void sessions_opened(void *arg)
{
    sessions_pump(arg);
}

static void sessions_on_opened(void *arg)
{
    struct sessions *sessions = arg;
    loop_task_queue(sessions->loop, &sessions->opened, sessions_opened, sessions);
}

int sessions_new(struct loop *loop, struct server_box *server_box, struct sessions **ret_sessions)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions) {
        return -ENOMEM;
    }
    sessions->loop = loop;
    sessions->server_box = server_box;
    overflows_init(&sessions->overflows, server_box, sessions_on_opened, sessions);
    *ret_sessions = sessions;
    return 0;
}

static void session_free(struct session *session)
{
    loop_timer_disarm(&session->timer);
    server_box_wait_cancel(&session->waiter);
    output_done(&session->next_result.between);
    buf_done(&session->next_result.killed);
    buf_done(&session->files.back);
    buf_done(&session->kept.line);
    session_kept_done(session);
    tool_channel_done(&session->calls);
    free(session);
}

void sessions_free(struct sessions *sessions)
{
    if (!sessions) {
        return;
    }
    while (sessions->list) {
        struct session *session = sessions->list;
        assert(!session->guest); /* the sandbox has ended */
        sessions->list = session->next;
        run_free(session->current);
        session_free(session);
    }
    sessions_keep_done(sessions);
    buf_done(&sessions->written.text);
    loop_timer_disarm(&sessions->memory_timer);
    loop_task_cancel(&sessions->opened);
    free(sessions);
}

static struct session *session_new(struct sessions *sessions, const char *name)
{
    unsigned most = LIMIT_SESSIONS + (sessions->keeping.save != NULL);
    struct session *session = sessions->count < most ? calloc(1, sizeof *session) : NULL;
    if (session) {
        session->owner = sessions;
        session->serial = ++sessions->last_serial;
        session->calls.servers = sessions->tool_servers;
        session->calls.session = session->serial;
        (void)snprintf(session->name, sizeof session->name, "%s", name);
        output_init(&session->next_result.between);
        session->next = sessions->list;
        sessions->list = session;
        sessions->count++;
    }
    return session;
}

static struct session *session_find(struct sessions *sessions, const char *name)
{
    return list_find(sessions->list, session,
                     !session->transient && strcmp(session->name, name) == 0);
}

static struct session *session_get(struct sessions *sessions, const char *name)
{
    struct session *session = session_find(sessions, name);
    return session ? session : session_new(sessions, name);
}

struct session *session_parent(const struct session *session)
{
    return session->branches ? session_find(session->owner, session->name) : NULL;
}

void session_drop(struct session *session)
{
    list_remove(&session->owner->list, session);
    session->owner->count--;
    session_free(session);
}

/* --- the end of a run --- */

void session_overflow_open(void *arg)
{
    struct session *session = arg;
    if (session->guest) {
        box_session_hold_output(session->guest, false);
    }
}

void session_keep_output(struct session *session)
{
    struct run *run = session->current;
    if (run->cancelled && !run->overflow && !run->on_output &&
        run->output.total + run->errors.total > 0) {
        (void)outcome_begin_overflow(run, &session->owner->overflows, session_overflow_open,
                                     session);
    }
}

/* Nobody gets the result of a cancelled run: the next one reports what became of it. */
static void session_report_cancelled(struct session *session, const struct run *run, bool began)
{
    char path[OVERFLOW_PATH_BYTES];
    char size[16];
    struct session *next =
        session->transient ? session_get(session->owner, SESSION_DEFAULT) : session;
    if (session->transient && next && run->overflow) {
        session_tell(next, "a %s call was cancelled", run->request.branch ? "branch" : "fresh");
    } else if (!session->transient) {
        session_tell_cancelled(session, run, began ? run_state_name(run->end.state) : NULL);
        if (run->end.state == RUN_STATE_RESTORED_EARLIER) {
            session_tell(session, "changes after <cell %u> are lost", run->end.restored_cell);
        }
    }
    if (next && run_fact(run, RUN_TOOLS)[0]) {
        session_tell(next, "the cancelled call has called %s", run_fact(run, RUN_TOOLS));
    }
    if (next && run->overflow && overflow_path(run->overflow, path)) {
        session_tell(next, "its output (%s) is in %s",
                     content_size(run->output.total + run->errors.total, size), path);
    }
}

void session_done(struct session *session, const struct fate *fate)
{
    struct run *run = session->current;
    run_take_fate(run, fate);
    if (run->request.save[0] && !run_fact(run, RUN_SAVED)[0] && run->end.outcome != RUN_REFUSED) {
        run_addf(run, RUN_SAVED, "not saved");
        run_addf(run, RUN_UNSAVED, "the %s", run->stop ? "job was stopped" : "call failed");
    }
    session_keep_output(session);
    session_calls_end(session);
    if (run->overflow) {
        overflow_detach(run->overflow);
        session_overflow_open(session);
    }
    session_list_left(session);
    session->current = NULL;
    const char *named = run_fact(run, RUN_NAMED_STATES);
    if (named[0] && (run->cancelled || run->end.outcome == RUN_REFUSED)) {
        session_tell(session, "named states: %s", named);
    }
    if (session->next_result.strays > 0) {
        session_tell(session, "%u message%s from the sandbox matched no call and %s dropped",
                     session->next_result.strays, session->next_result.strays == 1 ? "" : "s",
                     session->next_result.strays == 1 ? "was" : "were");
        session->next_result.strays = 0;
    }
    if (run->cancelled) {
        session_report_cancelled(session, run, fate->began);
    } else if (run->end.outcome != RUN_REFUSED) {
        if (run->end.outcome == RUN_TIMEOUT && run->sent > 0 && !session->begun) {
            session_tell(session,
                         "the code did not begin: what earlier calls have left, such as "
                         "pools that come back, held the interpreter; `reset` ends that");
            run->job_limit_ms = 0; /* more time would not help */
        }
        session_kept_line(session, run, /* is_last= */ true);
        run_addf(run, RUN_BEFORE, "%s", session->next_result.before);
        session->next_result.before[0] = '\0';
        lost_threads_report(&session->lost, run);
        run_add_number(run, RUN_PROCESSES, session->next_result.processes);
        session->next_result.processes = 0;
        run_add(run, RUN_KILLED, buf_bytes(&session->next_result.killed),
                buf_size(&session->next_result.killed));
        buf_done(&session->next_result.killed);
    }
    session_files_end(session, run);
}

struct fate_facts session_facts(const struct session *session, enum fate_event event,
                                const struct box_end *end)
{
    const struct run *run = session->current;
    enum session_state state = session->state;
    /* Sent once more, and not twice: it could be what ends the interpreter. A start may have had no
     * process or no memory, which code uses up for others. */
    bool unread = run && ((state == SESSION_RUNNING && !session->begun && run->sent == 1) ||
                          (state == SESSION_OPENING && run->starts == 1 && !run->request.branch));
    return (struct fate_facts){
        .event = event,
        .has_run = run != NULL,
        .fresh = session->transient,
        .branch = run && run->request.branch,
        .cancelled = run && run->cancelled,
        .stopped = run && run->stop,
        .began = run && session_life_has_begun(state) && !unread,
        .unread = unread,
        .interrupted = state == SESSION_INTERRUPTED || state == SESSION_CHECK_INTERRUPTED,
        .killed = state == SESSION_KILLED,
        .end = end,
        .closing = state == SESSION_CLOSING || session->kept.back == BACK_LOADING,
        .had_state = session->history.now.cell > 0,
    };
}

void session_conclude(struct session *session, enum fate_event event, const char *why)
{
    struct fate_facts facts = session_facts(session, event, NULL);
    facts.why = why;
    struct fate fate = run_fate(&facts);
    session_done(session, &fate);
}

/* --- from state to state --- */

void session_enter(struct session *session, enum session_state state)
{
    enum session_state from = session->state;
    if (!session_life_follows(from, state)) {
        log_error("tools", "session: unexpected step from %s to %s", session_life_name(from),
                  session_life_name(state));
    }
    loop_timer_disarm(&session->timer);
    if (from == SESSION_SUPPLYING) {
        session_packages_forget(session);
    }
    session->state = state;
}

void session_close(struct session *session)
{
    char gone[SESSION_NAMES_BYTES];
    session_state_lost(session, gone);
    session_enter(session, SESSION_CLOSING);
    box_session_close(session->guest);
}

/* --- deadlines --- */

static void session_traced(void *arg)
{
    struct session *session = arg;
    char text[8192];
    (void)box_session_traced(session->guest, text, sizeof text);
    if (!outcome_trace_is_whole(text) && clock_now_ns() < session->trace_until_ns) {
        loop_timer_in(session->owner->loop, &session->timer, LIMIT_TRACE_STEP_MS, session_traced,
                      session);
        return;
    }
    outcome_take_trace(session->current, text);
    session_enter(session, SESSION_KILLED);
    box_session_kill(session->guest);
}

/* Whether the interrupt has reached the code. */
static bool session_was_reached(struct session *session)
{
    char text[8192];
    (void)box_session_traced(session->guest, text, sizeof text);
    return strstr(text, "interrupted") != NULL;
}

/* The interrupt has not helped: ask where it hangs, then kill. */
static void session_grace_over(void *arg)
{
    struct session *session = arg;
    const struct run *run = session->current;
    if (run->on_output && run->stop && session_was_reached(session)) {
        return; /* on the command line `finally` runs until the next signal */
    }
    box_session_trace(session->guest);
    session->trace_until_ns = clock_now_ns() + LIMIT_TRACE_MS * CLOCK_NS_PER_MS;
    session_traced(session);
}

static void session_grace_step(struct session *session, unsigned part, loop_fn fn)
{
    loop_timer_in(session->owner->loop, &session->timer, LIMIT_INTERRUPT_GRACE_MS / part, fn,
                  session);
}

static void session_interrupt_again(void *arg)
{
    struct session *session = arg;
    if (!session_was_reached(session)) {
        box_session_interrupt(session->guest);
    }
    session_grace_step(session, 4, session_grace_over);
}

/* Code that waits for a child in C ignores the interrupt, as system(3) does, until the child ends.
 */
static void session_grace_half_over(void *arg)
{
    struct session *session = arg;
    bool waits = !session_was_reached(session) && session->state == SESSION_INTERRUPTED &&
                 box_session_end_cell(session->guest, session_files_mark(session)) == 0;
    if (waits) {
        session->current->end.waited = true;
    }
    session_grace_step(session, waits ? 4 : 2,
                       waits ? session_interrupt_again : session_grace_over);
}

/* A timer's function. */
static void session_interrupt(void *arg)
{
    struct session *session = arg;
    session_enter(session, session->state == SESSION_CHECKING ? SESSION_CHECK_INTERRUPTED
                                                              : SESSION_INTERRUPTED);
    box_session_interrupt(session->guest);
    session_grace_step(session, 2, session_grace_half_over);
}

void session_arm_deadline(struct session *session)
{
    const struct run *run = session->current;
    uint64_t limit_ns = run->request.timeout_ms * CLOCK_NS_PER_MS;
    if (run->request.timeout_ms > 0) {
        uint64_t left_ns = limit_ns > run->spent_ns ? limit_ns - run->spent_ns : 0;
        left_ns += run->asked.since_ns > 0 ? ASKED_MOST_NS - run->asked.ns : 0;
        loop_timer_arm(session->owner->loop, &session->timer, run->started_ns + left_ns,
                       session_interrupt, session);
    }
}

static struct session *session_of(struct sessions *sessions, const struct run *run)
{
    return list_find(sessions->list, session, session->current == run);
}

void sessions_stop_clock(struct sessions *sessions, struct run *run, bool stop)
{
    struct session *session = session_of(sessions, run);
    uint64_t now_ns = clock_now_ns();
    uint64_t asked_ns = stop ? 0 : now_ns - run->asked.since_ns;
    if (asked_ns > ASKED_MOST_NS - run->asked.ns) {
        asked_ns = ASKED_MOST_NS - run->asked.ns;
    }
    run->started_ns += asked_ns;
    run->asked.ns += asked_ns;
    run->asked.since_ns = stop ? now_ns : 0;
    if (session && session->state == SESSION_RUNNING) {
        session_arm_deadline(session);
    }
}

struct run *sessions_job(const struct sessions *sessions, int64_t number)
{
    const struct session *found =
        list_find(sessions->list, session, session->current && session->current->job == number);
    return found && number > 0 ? found->current : NULL;
}

void sessions_extend(struct sessions *sessions, struct run *run, uint64_t timeout_ms)
{
    struct session *session = session_of(sessions, run);
    if (run->request.timeout_ms == 0 || timeout_ms <= run->request.timeout_ms) {
        return;
    }
    run->request.timeout_ms = timeout_ms;
    if (session && session->state == SESSION_RUNNING) {
        session_arm_deadline(session);
    }
}

/* --- calls --- */

struct overflows *sessions_overflows(struct sessions *sessions)
{
    return &sessions->overflows;
}

unsigned sessions_running(const struct sessions *sessions)
{
    unsigned count = 0;
    for (const struct session *at = sessions->list; at; at = at->next) {
        count += at->current != NULL && at->current->keep_ms == 0;
    }
    return count;
}

void sessions_hold_output(struct sessions *sessions, bool hold)
{
    for (struct session *session = sessions->list; session; session = session->next) {
        if (session->guest) {
            box_session_hold_output(session->guest, hold);
        }
    }
}

void sessions_warm_up(struct sessions *sessions)
{
    struct session *session = session_get(sessions, SESSION_DEFAULT);
    if (session && session->state == SESSION_NONE) {
        session_start(session);
    }
}

int sessions_run(struct sessions *sessions, const char *name, struct run *run)
{
    name = name ? name : SESSION_DEFAULT;
    struct session *session = run->request.fresh    ? session_new(sessions, "fresh")
                              : run->request.branch ? session_new(sessions, name)
                                                    : session_get(sessions, name);
    if (session && (run->request.fresh || run->request.branch)) {
        session->transient = true;
        session->branches = run->request.branch;
    }
    if (!session) {
        return sessions->count >= LIMIT_SESSIONS ? -EMFILE : -ENOMEM;
    }
    assert(!session->current); /* see tools/order/order.h */
    session->current = run;
    struct session *asked = session;
    if (run->request.branch && run->keep_ms == 0 && sessions->keeping.lock != KEEPING_OFF) {
        asked = session_get(sessions, name);
    }
    if (asked) {
        session_kept_ask(asked);
    }
    session_pump(session);
    return 0;
}

static void session_stop(struct session *session)
{
    if (session && session->state == SESSION_RUNNING) {
        session_interrupt(session);
    }
    if (session) {
        session_pump(session);
    }
}

void sessions_cancel(struct sessions *sessions, struct run *run)
{
    run->cancelled = true;
    session_stop(session_of(sessions, run));
}

void sessions_stop(struct sessions *sessions, struct run *run)
{
    run->stop = true;
    session_stop(session_of(sessions, run));
}

void sessions_write_output(struct sessions *sessions, struct run *run)
{
    struct session *session = session_of(sessions, run);
    if (session && session->guest && !run->overflow &&
        outcome_begin_overflow(run, &sessions->overflows, session_overflow_open, session)) {
        box_session_hold_output(session->guest, true);
    }
}
