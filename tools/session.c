/* The life of a session.
 *
 *   NONE ──first run──► WAITING (for the box) ──► OPENING (the fork says hello) ──► IDLE
 *   IDLE ──run──► RUNNING ──result──► IDLE
 *   IDLE ──run──► CHECKING ──needs──► SUPPLYING (the installer works) ──► RUNNING: with --auto-install
 *   RUNNING ──deadline or cancel──► INTERRUPTED ──result──► IDLE
 *   INTERRUPTED ──grace over──► KILLED ──end──► NONE, and the next run starts a fresh interpreter
 *
 * The interpreter's end can come in every state; a run that it takes along is answered from what
 * is known then, else it is remembered for the next answer's status line. */
#include "tools/session.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "tools/outcome.h"
#include "tools/session_inside.h"

static const char default_name[] = "default";

int sessions_new(struct loop *loop, struct workspace *workspace, struct sessions **ret_sessions)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions) {
        return -ENOMEM;
    }
    sessions->loop = loop;
    sessions->workspace = workspace;
    spills_init(&sessions->spills, workspace);
    *ret_sessions = sessions;
    return 0;
}

void sessions_free(struct sessions *sessions)
{
    if (!sessions) {
        return;
    }
    while (sessions->list) {
        struct session *session = sessions->list;
        assert(!session->guest); /* the box is gone by now */
        sessions->list = session->next;
        loop_timer_disarm(&session->timer);
        workspace_wait_cancel(&session->waiter);
        while (session->queue) {
            struct run *run = session->queue;
            session->queue = run->next;
            run_free(run);
        }
        run_free(session->current);
        output_done(&session->between);
        free(session);
    }
    loop_timer_disarm(&sessions->memory_timer);
    free(sessions);
}

static struct session *session_new(struct sessions *sessions, const char *name)
{
    struct session *session = sessions->count < LIMIT_SESSIONS ? calloc(1, sizeof *session) : NULL;
    if (session) {
        session->owner = sessions;
        session->queue_end = &session->queue;
        (void)snprintf(session->name, sizeof session->name, "%s", name);
        output_init(&session->between);
        session->next = sessions->list;
        sessions->list = session;
        sessions->count++;
    }
    return session;
}

static struct session *session_get(struct sessions *sessions, const char *name)
{
    struct session *session = sessions->list;
    while (session && (session->transient || strcmp(session->name, name) != 0)) {
        session = session->next;
    }
    return session ? session : session_new(sessions, name);
}

/* Frees a session for one run whose interpreter is gone. */
static void session_drop(struct session *session)
{
    session_packages_forget(session);
    struct session **at = &session->owner->list;
    while (*at != session) {
        at = &(*at)->next;
    }
    *at = session->next;
    session->owner->count--;
    loop_timer_disarm(&session->timer);
    workspace_wait_cancel(&session->waiter);
    output_done(&session->between);
    free(session);
}

/* --- the end of a run --- */

/* The file of a long output takes what comes, or has failed. */
static void session_spill_open(void *arg)
{
    struct session *session = arg;
    if (session->guest) {
        box_session_hold_output(session->guest, false);
    }
}

void session_done(struct session *session, enum run_outcome outcome, enum run_state state)
{
    struct run *run = session->current;
    loop_timer_disarm(&session->timer);
    session->current = NULL;
    if (run->spill) {
        spill_detach(run->spill);
        session_spill_open(session);
    }
    if (session->strays > 0) {
        session_tell(session, "%u message%s of the sandbox belonged to no call and %s dropped",
                     session->strays, session->strays == 1 ? "" : "s",
                     session->strays == 1 ? "was" : "were");
        session->strays = 0;
    }
    run->outcome = outcome;
    run->interrupted = state == RUN_STATE_INTERRUPTED;
    run->state = run->fresh && state != RUN_STATE_ALL_LOST ? RUN_STATE_DROPPED : state;
    run->duration_ns = run->started_ns ? clock_now_ns() - run->started_ns : 0;
    if (run->cancelled) {
        session_tell_cancelled(session, run, run_state_name(state));
        if (state == RUN_STATE_RESTORED_EARLIER) {
            session_tell(session, "what came after <cell %u> is lost", run->restored_cell);
        }
    } else if (outcome != RUN_REFUSED) {
        (void)snprintf(run->before, sizeof run->before, "%s", session->before);
        session->before[0] = '\0';
        run->threads = session->threads;
        session->threads = 0;
    }
    run->on_done(run->arg, run);
}

void session_abandon(struct session *session)
{
    struct run *run = session->current;
    session->current = NULL;
    session_tell_cancelled(session, run, NULL);
    run->outcome = RUN_CANCELLED;
    run->on_done(run->arg, run);
}

static void session_refuse(struct session *session, const struct fail *why)
{
    struct run *run = session->current;
    char text[FAIL_TEXT + 128];
    (void)snprintf(run->text, sizeof run->text, "The sandbox is not available: %s.",
                   fail_describe(why, text, sizeof text));
    session_done(session, RUN_REFUSED, RUN_STATE_KEPT);
}

/* --- deadlines --- */

void session_kill(void *arg)
{
    struct session *session = arg;
    session->state = SESSION_KILLED;
    box_session_kill(session->guest);
}

static void session_traced(void *arg)
{
    struct session *session = arg;
    char text[8192];
    uint64_t now_ns = clock_now_ns();
    (void)box_session_traced(session->guest, text, sizeof text);
    if (!outcome_trace_is_whole(text) && now_ns < session->trace_until_ns) {
        loop_timer_arm(session->owner->loop, &session->timer,
                       now_ns + LIMIT_TRACE_STEP_MS * CLOCK_NS_PER_MS, session_traced, session);
        return;
    }
    outcome_take_trace(session->current, text);
    session_kill(session);
}

/* The interrupt has not helped: ask where it hangs, then kill. */
static void session_grace_over(void *arg)
{
    struct session *session = arg;
    box_session_trace(session->guest);
    session->trace_until_ns = clock_now_ns() + LIMIT_TRACE_MS * CLOCK_NS_PER_MS;
    session_traced(session);
}

static void session_interrupt(struct session *session)
{
    session->state = SESSION_INTERRUPTED;
    box_session_interrupt(session->guest);
    loop_timer_arm(session->owner->loop, &session->timer,
                   clock_now_ns() + LIMIT_INTERRUPT_GRACE_MS * CLOCK_NS_PER_MS, session_grace_over,
                   session);
}

static void session_deadline(void *arg)
{
    session_interrupt(arg);
}

void session_arm_deadline(struct session *session)
{
    const struct run *run = session->current;
    uint64_t limit_ns = run->timeout_ms * CLOCK_NS_PER_MS;
    if (run->timeout_ms > 0) {
        uint64_t left_ns = limit_ns > run->spent_ns ? limit_ns - run->spent_ns : 0;
        loop_timer_arm(session->owner->loop, &session->timer, run->started_ns + left_ns,
                       session_deadline, session);
    }
}

/* --- what the guest says: the rest is in session_messages.c --- */

static void session_on_output(void *arg, enum box_stream stream, const char *bytes, size_t size)
{
    struct session *session = arg;
    struct run *run = session->current;
    if (!run) {
        output_add(&session->between, (unsigned)stream, bytes, size);
    } else if (run->on_output) {
        run->output.total += size;
        run->on_output(run->arg, (unsigned)stream, bytes, size);
    } else if (outcome_take_output(run, &session->owner->spills, stream,
                                   (struct box_field){bytes, size}, session_spill_open, session)) {
        box_session_hold_output(session->guest, true);
    }
}

bool session_was_stopped(const struct session *session, const struct box_end *end)
{
    return session->state == SESSION_KILLED || (session->state == SESSION_INTERRUPTED &&
                                                end->kind == BOX_END_SIGNAL && end->code == SIGINT);
}

/* The interpreter died and its checkpoint is the session now. */
static void session_on_restored(void *arg, const struct box_end *end, unsigned cell,
                                unsigned threads)
{
    struct session *session = arg;
    struct run *run = session->current;
    session_packages_forget(session);
    session->checking = false;
    loop_timer_disarm(&session->timer); /* it was set for the interpreter that died */
    session->threads += threads;
    session_memory_place(session, end);
    if (session->state == SESSION_RESTORING) {
        session_state_taken(session, cell);
        return;
    }
    bool ran = run && session->state >= SESSION_RUNNING && !session->unsent;
    enum run_outcome outcome =
        ran ? outcome_of_end(run, end, session_was_stopped(session, end)) : RUN_OK;
    bool exact = cell == session->history.now.cell;
    char why[64];
    session->state = SESSION_IDLE;
    session->unsent = false;
    session_state_back(session, ran ? run : NULL, cell);
    if (ran) {
        run->restored_cell = cell;
        if (end->kind == BOX_END_OOM) {
            session_state_crowded(session);
        }
        session_done(session, outcome, exact ? RUN_STATE_RESTORED : RUN_STATE_RESTORED_EARLIER);
    } else {
        session_tell(session,
                     "the interpreter ended between the calls (%s), state restored to after "
                     "<cell %u>",
                     outcome_end_text(end, why), cell);
    }
    session_pump(session);
}

static void session_on_end(void *arg, const struct box_end *end)
{
    struct session *session = arg;
    struct run *run = session->current;
    bool box_ended = !workspace_box(session->owner->workspace);
    enum run_state lost = box_ended && !workspace_is_host_folder(session->owner->workspace)
                              ? RUN_STATE_ALL_LOST
                              : RUN_STATE_LOST;
    char gone[sizeof run->gone];
    session_packages_forget(session);
    session_memory_place(session, end);
    session->checking = false;
    session->guest = NULL;
    loop_timer_disarm(&session->timer);
    if (session->resetting) {
        session->resetting = false;
        session->unsent = false;
        session->has_state = false;
        session->state = SESSION_NONE;
        session_pump(session);
        return;
    }
    bool began = session->state >= SESSION_RUNNING && !session->unsent;
    bool had_state = session->has_state;
    session->unsent = false;
    session_state_lost(session, gone, sizeof gone);
    enum run_outcome outcome =
        run ? outcome_of_end(run, end, session_was_stopped(session, end)) : RUN_OK;
    session->state = SESSION_NONE;
    if (run && (began || box_ended)) {
        session->has_state = false;
        memcpy(run->gone, gone, sizeof gone);
        /* Before the first answer there was nothing to lose: a fresh interpreter is as good. */
        session_done(session, outcome, had_state || box_ended ? lost : RUN_STATE_RESTORED);
    } else if (had_state) {
        session->has_state = false;
        session_tell(session, "the interpreter ended between the calls, its variables are gone%s%s",
                     *gone ? ": " : "", gone);
    } else if (run) {
        struct fail fail = {};
        (void)fail_set(&fail, 0, "%s",
                       end->kind == BOX_END_REFUSED
                           ? "the interpreter could not be kept apart from others by Landlock"
                           : "the interpreter ended before it was ready");
        session_refuse(session, &fail);
    }
    session_pump(session);
}

/* --- the way to a run --- */

void session_wait_for_heir(struct session *session)
{
    session->state = SESSION_RUNNING;
    session->unsent = true;
    loop_timer_disarm(&session->timer);
}

void session_send(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf layers = BUF_EMPTY;
    char cell[16];
    run->cell = ++session->cell;
    (void)snprintf(cell, sizeof cell, "%u", run->cell);
    struct box_field fields[13] = {
        {"run", 3}, {"cell", 4}, {cell, strlen(cell)}, {"code", 4}, {run->code, run->code_size}};
    size_t count = 5;
    if (run->stdin_text) {
        fields[count++] = (struct box_field){"stdin", 5};
        fields[count++] = (struct box_field){run->stdin_text, run->stdin_size};
    }
    if (session->transient) {
        fields[count++] = (struct box_field){"once", 4};
        fields[count++] = (struct box_field){"1", 1};
    }
    count += session_packages_fields(session, &layers, fields + count);
    session_packages_sent(session);
    run->started_ns = clock_now_ns();
    /* What was printed since the last answer belongs before what this run prints. */
    if (!run->on_output && session->between.total > 0) {
        output_done(&run->output);
        run->output = session->between;
        output_init(&session->between);
    }
    session->state = SESSION_RUNNING;
    session_arm_deadline(session);
    session_memory_watch(session);
    int r = box_session_send(session->guest, fields, count);
    if (r < 0) {
        session_wait_for_heir(session);
        log_debug("tools", "run: %s", strerror(-r));
    }
}

static void session_on_ready(void *arg)
{
    struct session *session = arg;
    session->state = SESSION_IDLE;
    session_pump(session);
}

static const struct box_session_events session_events = {
    .on_ready = session_on_ready,
    .on_message = session_on_message,
    .on_output = session_on_output,
    .on_checkpoint = session_on_checkpoint,
    .on_restored = session_on_restored,
    .on_slow = session_on_slow,
    .on_end = session_on_end,
};

static void session_box_ready(void *arg, struct box *box, const struct fail *why)
{
    struct session *session = arg;
    struct fail fail = {};
    session->state = SESSION_NONE;
    if (!box) {
        if (session->current) {
            session_refuse(session, why);
        }
        session_pump(session);
        return;
    }
    session->state = SESSION_OPENING;
    int r = box_session_open(box, session->name, &session_events, session, &session->guest, &fail);
    if (r < 0) {
        session->state = SESSION_NONE;
        if (session->current) {
            session_refuse(session, &fail);
        }
        session_pump(session);
    }
}

static void session_start(struct session *session)
{
    session->state = SESSION_WAITING;
    workspace_wait(session->owner->workspace, &session->waiter, session_box_ready, session);
}

/* The one run of a transient session is done: what is left of it goes. */
static void session_retire(struct session *session)
{
    if (session->guest) {
        session->state = SESSION_KILLED;
        box_session_close(session->guest); /* whose end comes back here */
    } else if (session->state != SESSION_WAITING) {
        session_drop(session);
    }
}

void session_pump(struct session *session)
{
    bool at_rest = session->state == SESSION_NONE || session->state == SESSION_IDLE;
    bool is_slow = session->state == SESSION_KILLED && session->unsent;
    if (at_rest && session->current && session->current->cancelled) {
        session_abandon(session);
    }
    if (!session->current && session->queue) {
        session->current = session->queue;
        session->queue = session->current->next;
        if (!session->queue) {
            session->queue_end = &session->queue;
        }
        session->queued--;
    }
    struct run *run = session->current;
    if (!run) {
        if (session->transient) {
            session_retire(session);
        }
        return;
    }
    if (run->reset && (at_rest || is_slow)) {
        run->reset = false;
        run->was_reset = true;
        if (session->has_state) {
            char gone[sizeof run->gone];
            session_state_lost(session, gone, sizeof gone);
            session->resetting = true;
            session->state = SESSION_KILLED;
            box_session_close(session->guest);
            return;
        }
    }
    if (session->state == SESSION_NONE) {
        if (session_state_wanted(session)) {
            session_start(session);
        }
    } else if (session->state == SESSION_IDLE && !session_packages_wait(session) &&
               session_state_wanted(session) && !session_packages_check(session)) {
        session_send(session);
    }
}

void sessions_warm_up(struct sessions *sessions)
{
    struct session *session = session_get(sessions, default_name);
    if (session && session->state == SESSION_NONE) {
        session_start(session);
    }
}

int sessions_run(struct sessions *sessions, const char *name, struct run *run)
{
    struct session *session = run->fresh ? session_new(sessions, "fresh")
                                         : session_get(sessions, name ? name : default_name);
    if (session && run->fresh) {
        session->transient = true;
    }
    if (!session) {
        return sessions->count == LIMIT_SESSIONS ? -EMFILE : -ENOMEM;
    }
    if (session->queued == LIMIT_SESSION_QUEUE) {
        return -EBUSY;
    }
    run->next = NULL;
    *session->queue_end = run;
    session->queue_end = &run->next;
    session->queued++;
    session_pump(session);
    return 0;
}

static bool session_cancel_queued(struct session *session, struct run *run)
{
    for (struct run **at = &session->queue; *at; at = &(*at)->next) {
        if (*at == run) {
            *at = run->next;
            if (session->queue_end == &run->next) {
                session->queue_end = at;
            }
            session->queued--;
            run->outcome = RUN_CANCELLED;
            run->on_done(run->arg, run);
            return true;
        }
    }
    return false;
}

void sessions_cancel(struct sessions *sessions, struct run *run)
{
    for (struct session *session = sessions->list; session; session = session->next) {
        if (session->current == run) {
            run->cancelled = true;
            if (session->state == SESSION_CHECKING || session->state == SESSION_SUPPLYING) {
                loop_timer_disarm(&session->timer);
                session->checking = false;
                session_packages_forget(session);
                session->state = SESSION_IDLE;
            }
            if (session->state == SESSION_RUNNING) {
                session_interrupt(session);
            } else if (session->state < SESSION_RUNNING && session->state != SESSION_RESTORING) {
                /* Not begun: the interpreter goes on opening, for the next run. */
                session_abandon(session);
                session_pump(session);
            }
            return;
        }
        if (session_cancel_queued(session, run)) {
            return;
        }
    }
}
