/* Messages of the guest: that a run's code begins, its result, and which packages the code lacks
 * before it runs. Code can write to the session's socket too, so a message counts only for the run
 * that it names and in the state that awaits it. */
#include <string.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/run/outcome.h"
#include "tools/session/session_internal.h"

enum {
    SWEEP_MS = 5000,   /* then the result does not wait for what the kernel is slow to end */
    KILLED_BYTES = 500 /* of names after which no more are added */
};

/* Whether the message is about the current run. Code knows its own run's number and can forge that
 * run's result, but not the result of a later run. */
static bool is_of_run(const struct session *session, const struct box_message *message)
{
    return session->current && box_message_number(message, "cell", 0) == session->current->cell;
}

/* Counts a message that no run awaits: hostile code sent it. Not counted: a result that arrives as
 * its interpreter is killed, and "needs" of a cancelled run. */
static void session_stray(struct session *session, const struct box_message *message)
{
    bool is_ending = session->state == SESSION_KILLED || session->state == SESSION_FAILOVER ||
                     session->state == SESSION_CLOSING;
    session->next_result.strays += !is_ending && !box_field_is(&message->fields[0], "needs");
}

/* The verb that the server awaits; NULL: none. */
static const char *awaited(enum session_state state)
{
    bool checks = state == SESSION_CHECKING || state == SESSION_CHECK_INTERRUPTED;
    bool runs = state == SESSION_RUNNING || state == SESSION_INTERRUPTED;
    return checks ? "needs" : runs ? "result" : NULL;
}

/* The current run's result is complete, and nothing else has to end: saves the state if the run
 * requests that, and returns the run. Leaves RUNNING, INTERRUPTED or SWEEPING. */
static void session_result_taken(struct session *session)
{
    struct run *run = session->current;
    bool saves = run->request.save[0] && !run_is_error(run) && !run->cancelled &&
                 run->stop != RUN_STOP_REQUESTED;
    if (saves && session_checkpoint(session) == BOX_CHECKPOINT_AWAITED) {
        session_save(session);
        return;
    }
    if (saves) {
        session_name_state(session);
    }
    session_enter(session, SESSION_IDLE);
    session_done(session, &session->fate);
}

static void session_swept(void *arg)
{
    struct session *session = arg;
    session_result_taken(session);
    session_pump(session);
}

/* The next result reports them. names: lines. */
void session_add_killed(struct session *session, unsigned processes, const char *names)
{
    session->next_result.processes += processes;
    while (*names && buf_size(&session->next_result.killed) < KILLED_BYTES) {
        size_t size = strcspn(names, "\n");
        if (buf_size(&session->next_result.killed) > 0) {
            (void)buf_append_text(&session->next_result.killed, ", ");
        }
        (void)word_append(&session->next_result.killed, names, size);
        names += size + (names[size] == '\n');
    }
}

void session_on_cell_ended(void *arg, unsigned processes, const char *names)
{
    struct session *session = arg;
    session_add_killed(session, processes, names);
    if (session->state == SESSION_SWEEPING) {
        session_swept(session);
    } else if (session->state == SESSION_INTERRUPTED) {
        box_session_interrupt(session->guest); /* what it waited for has ended */
    }
}

/* Ends the processes that an interrupted run has started. Returns false if there is nothing to wait
 * for. */
static bool session_end_processes(struct session *session)
{
    bool was_interrupted = session->state == SESSION_INTERRUPTED || session->fate.interrupted;
    if (!was_interrupted || session->transient ||
        box_session_end_cell(session->guest, session_files_mark(session)) < 0) {
        return false;
    }
    session_enter(session, SESSION_SWEEPING);
    loop_timer_in(session->owner->loop, &session->timer, SWEEP_MS, session_swept, session);
    return true;
}

static void session_on_result(struct session *session, const struct box_message *message)
{
    struct run *run = session->current;
    struct fate_facts facts = session_facts(session, FATE_RESULT, NULL);
    (void)box_message_get(message, "status", &facts.status);
    struct fate fate = run_fate(&facts);
    tool_channel_end(&session->calls);
    box_session_drain(session->guest);
    outcome_take_parts(run, message);
    session_explain_branch(session);
    if (fate.outcome == RUN_EXIT) {
        run->end.process.code = outcome_exit_code(message);
    }
    run_take_fate(run, &fate);
    session_state_made(session, message);
    session_state_make_space(session, message);
    session->fate = fate;
    session_keep_output(session); /* init responds before it has ended the processes */
    if (!session_end_processes(session)) {
        session_result_taken(session);
    }
}

/* The run's time was over while the guest checked its imports. */
static void session_on_check_end(struct session *session)
{
    struct fate_facts facts = session_facts(session, FATE_CHECK_ENDED, NULL);
    struct fate fate = run_fate(&facts);
    session_enter(session, SESSION_IDLE);
    if (session->current->stop == RUN_STOP_REQUESTED && !session->transient) {
        session_state_untouched(session);
    }
    session_done(session, &fate);
}

void session_on_message(void *arg, const struct box_message *message)
{
    struct session *session = arg;
    const char *verb = awaited(session->state);
    if (box_field_is(&message->fields[0], "begun") && is_of_run(session, message)) {
        session->begun = true;
        lost_threads_take(&session->lost, message, session->transient);
        session_pump(session); /* branches may wait for this */
        return;
    }
    if (!verb || !is_of_run(session, message) || !box_field_is(&message->fields[0], verb)) {
        session_stray(session, message);
    } else if (session->state == SESSION_CHECKING) {
        session_packages_supply(session, message);
    } else if (session->state == SESSION_CHECK_INTERRUPTED) {
        session_on_check_end(session);
        session_pump(session);
    } else {
        session_on_result(session, message);
        session_pump(session);
    }
}

/* Calls of tools of other servers: when they may come, and what a result says of them. */

void sessions_set_tool_servers(struct sessions *sessions, struct tool_servers *servers)
{
    sessions->tool_servers = servers;
}

void session_on_call(void *arg, const struct box_message *message)
{
    struct session *session = arg;
    tool_channel_receive(&session->calls, message);
}

void session_calls_end(struct session *session)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    tool_channel_end(&session->calls);
    if (run->cell == 0) {
        return;
    }
    ledger_list(&session->calls.ledger, run->cell, &text);
    if (buf_size(&text) > 0) {
        run_add(run, RUN_TOOLS, buf_bytes(&text), buf_size(&text));
    }
    if (session->transient) {
        session_calls_stay(session, LEDGER_ONE, run->cell);
    }
}

void session_calls_stay(struct session *session, enum ledger_scope scope, unsigned cell)
{
    struct run *run = session->current;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (session->transient && scope != LEDGER_ONE) {
        return; /* session_calls_end() has */
    }
    ledger_take_back(&session->calls.ledger, scope, cell, session->history.now.calls,
                     run ? " | " : ", ", &text);
    if (buf_size(&text) == 0) {
        return;
    }
    if (run) {
        const char *before = run_fact(run, RUN_NOT_UNDONE);
        run_addf(run, RUN_NOT_UNDONE, "%s%s%.*s", before, before[0] ? " | " : "",
                 (int)buf_size(&text), buf_bytes(&text));
    } else {
        session_tell(session, "%.*s", (int)buf_size(&text), buf_bytes(&text));
    }
}
