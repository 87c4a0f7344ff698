/* A session's interpreter: its start, its messages (that a run's code begins, its result, which
 * packages the code lacks before it runs), and its end. Code can write to the session's socket too,
 * so a message counts only for the run that it names and in the state that awaits it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/run/run.h"
#include "tools/session/session_internal.h"

/* --- calls of tools of other servers: when they may come, and what a result says of them --- */

void sessions_set_tool_servers(struct sessions *sessions, struct tool_servers *servers)
{
    sessions->tool_servers = servers;
}

static void session_on_call(void *arg, const struct box_message *message)
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

/* --- messages --- */

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
    bool saves = run->request.save[0] && !run_is_error(run) && !run->cancelled && !run->stop;
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
static void session_add_killed(struct session *session, unsigned processes, const char *names)
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

static void session_on_cell_ended(void *arg, unsigned processes, const char *names)
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

/* Adds the hint why a branch beside a job may lack a name. */
static void session_explain_branch(const struct session *session)
{
    const struct session *parent = session_parent(session);
    struct run *run = session->current;
    if (parent && parent->current && parent->current->job > 0 &&
        strcmp(run_fact(run, RUN_ERROR_TYPE), "NameError") == 0 && !run_fact(run, RUN_HINT)[0]) {
        run_addf(run, RUN_HINT,
                 "job %u still runs: until it ends, no branch has the variables that it makes",
                 parent->current->job);
    }
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
    if (session->current->stop && !session->transient) {
        session_state_untouched(session);
    }
    session_done(session, &fate);
}

static void session_on_message(void *arg, const struct box_message *message)
{
    struct session *session = arg;
    const char *verb = awaited(session->state);
    if (box_field_is(&message->fields[0], "begun") && is_of_run(session, message)) {
        session->begun = true;
        lost_threads_take(&session->lost, message, session->transient);
        session_pump(session); /* branches may wait for this */
        return;
    }
    if (session->state == SESSION_LOADING && box_field_is(&message->fields[0], "back")) {
        session_kept_loaded(session, message);
        session_pump(session);
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

/* --- its end and its start --- */

/* The run's fate was decided by the interpreter's end. */
static void session_done_by_end(struct session *session, const struct fate *fate,
                                const struct box_end *end)
{
    session->current->end.process = *end;
    session_done(session, fate);
}

static void session_on_output(void *arg, enum box_stream stream, const char *bytes, size_t size)
{
    struct session *session = arg;
    struct run *run = session->current;
    if (!run) {
        output_add(&session->next_result.between, (unsigned)stream, bytes, size);
    } else if (run->on_output) {
        run->output.total += size;
        run->on_output(run->arg, (unsigned)stream, bytes, size);
    } else if (outcome_take_output(run, &session->owner->overflows, stream,
                                   (struct box_field){bytes, size}, session_overflow_open,
                                   session)) {
        box_session_hold_output(session->guest, true);
    }
}

/* What code does to a fork of its process can keep states from resuming, see wake_seen() in
 * sandbox/interpreter/process.c. */
static void session_tell_stalled(struct session *session, const struct box_end *end)
{
    if (end->stalled == 1) {
        session_tell(session,
                     "the state after <cell %u> did not resume and is lost: code of it hangs "
                     "(os.register_at_fork, sys.addaudithook, gc.callbacks, ...)",
                     end->stalled_cell);
    } else if (end->stalled > 1) {
        session_tell(
            session,
            "%u states, first the one after <cell %u>, did not resume and are lost: code of "
            "them hangs (os.register_at_fork, sys.addaudithook, gc.callbacks, ...)",
            end->stalled, end->stalled_cell);
    }
}

static void session_on_restored(void *arg, const struct box_end *end, unsigned cell,
                                const struct box_message *message)
{
    struct session *session = arg;
    struct run *run = session->current;
    unsigned goal = session->goal;
    bool at_goal = cell == goal;
    bool was_restoring = session->state == SESSION_RESTORING;
    struct fate_facts facts = session_facts(session, FATE_RESTORED, end);
    facts.exact = cell == session->history.now.cell;
    struct fate fate = run_fate(&facts);
    char why[64];
    session_add_killed(session, end->processes, end->names);
    session->goal = 0;
    session_memory_place(session, end);
    session_tell_stalled(session, end);
    lost_threads_take(&session->lost, message, true);
    session_enter(session, SESSION_IDLE);
    if (was_restoring && at_goal) {
        session_state_taken(session, cell);
        session_pump(session);
        return;
    }
    struct lost_names lost = {};
    session_state_back(session, fate.done, cell, &lost);
    if (fate.done) {
        run->end.restored_cell = cell;
        session_calls_stay(session, LEDGER_UNDO, cell);
        run_addf(run, RUN_GONE, "%s", lost.gone);
        run_addf(run, RUN_OLDER, "%s", lost.older);
        outcome_take_parts(run, message); /* what the dead process left in its files */
        if (end->kind == BOX_END_OOM) {
            session_state_crowded(session);
        }
        session_state_gave_up(session);
        session_done_by_end(session, &fate, end);
    } else if (goal > 0) {
        session_tell(session, "%s the session has the state after <cell %u>",
                     at_goal ? "the restore finished late," : "checkpoint died during restore,",
                     cell);
    } else if (fate.report == REPORT_RESTORED) {
        session_calls_stay(session, LEDGER_UNDO, cell);
        session_tell(session,
                     "the interpreter exited between calls (%s), restored to the state after "
                     "<cell %u>%s%s%s%s%s",
                     outcome_end_text(end, why), cell, lost.gone[0] ? ", variables lost: " : "",
                     lost.gone, lost.older[0] ? ", back to older values: " : "", lost.older,
                     lost.older[0] ? " " RUN_OLDER_NOTE : "");
    }
    session_pump(session);
}

/* What was killed ends slowly, or a checkpoint wakes slowly: no call waits for that, and no state
 * goes for it. */
static void session_on_slow(void *arg, const struct box_end *end)
{
    struct session *session = arg;
    struct fate_facts facts = session_facts(session, FATE_SLOW, end);
    struct fate fate = run_fate(&facts);
    if (!facts.closing) {
        session_enter(session, SESSION_FAILOVER);
    }
    if (fate.done) {
        session_calls_stay(session, LEDGER_UNDO, session->history.now.cell);
        session_done_by_end(session, &fate, end);
    }
    session_pump(session);
}

static void session_on_end(void *arg, const struct box_end *end)
{
    struct session *session = arg;
    struct fate_facts facts = session_facts(session, FATE_ENDED, end);
    facts.sandbox_ended = !server_box_get(session->owner->server_box);
    const struct box_spec *spec = server_box_spec(session->owner->server_box);
    facts.files_stay = box_spec_files_stay(spec);
    struct fate fate = run_fate(&facts);
    bool has_begun = session->state != SESSION_OPENING;
    char gone[SESSION_NAMES_BYTES];
    session_add_killed(session, end->processes, end->names);
    session_memory_place(session, end);
    session_tell_stalled(session, end);
    session->calls.guest = NULL;
    if (fate.done) {
        session_calls_end(session);
    }
    session_calls_stay(session, LEDGER_UNDO, 0);
    session_state_lost(session, gone);
    session->guest = NULL;
    session_enter(session, SESSION_NONE);
    if (session->kept.back == BACK_LOADING) {
        session_kept_failed(session);
    } else if (!has_begun && (fate.done || !session->current)) {
        session_kept_later(session);
    } else if (!facts.closing) {
        session->kept.aside |= facts.had_state; /* what is kept stays */
        session_kept_change(session);
    }
    if (fate.done) {
        run_addf(session->current, RUN_GONE, "%s", gone);
        session_state_gave_up(session);
        session_done_by_end(session, &fate, end);
    } else if (fate.report == REPORT_VARIABLES_LOST) {
        session_tell(session, "the interpreter exited between calls, variables lost%s%s",
                     *gone ? ": " : "", gone);
    }
    session->lost = (struct lost_threads){};
    session_pump(session);
}

static void session_on_ready(void *arg)
{
    struct session *session = arg;
    session_enter(session, SESSION_IDLE);
    session_pump(session);
}

static const struct box_session_events session_events = {
    .on_ready = session_on_ready,
    .on_message = session_on_message,
    .on_call = session_on_call,
    .on_output = session_on_output,
    .on_cell_ended = session_on_cell_ended,
    .on_checkpoint = session_on_checkpoint,
    .on_restored = session_on_restored,
    .on_slow = session_on_slow,
    .on_end = session_on_end,
};

/* Whether the interpreter runs a cell, and so reads nothing. */
static bool session_runs(const struct session *session)
{
    return session->state == SESSION_RUNNING || session->state == SESSION_INTERRUPTED;
}

/* Whether a finished call has left anything that a branch would not find in a new interpreter. */
static bool session_has_variables(const struct session *session)
{
    return session->guest && session->history.now.cell > 0;
}

static void session_box_ready(void *arg, struct box *box, const struct fail *why)
{
    struct session *session = arg;
    static const struct fail nothing = {.text = "there is nothing to save"};
    struct fail fail = {};
    const struct session *parent = session_parent(session);
    struct box_session_options options = {.name = session->name,
                                          .early = !session->current,
                                          .events = &session_events,
                                          .arg = session};
    if (parent && session_has_variables(parent)) {
        options.parent = parent->guest;
        options.cell = session_runs(parent) ? parent->history.now.cell : 0;
    }
    int r = -ENOENT;
    options.raw = session->current && session->current->keep_ms > 0;
    if (box && options.raw && !options.parent) { /* it was reset meanwhile */
        box = NULL;
        why = &nothing;
    }
    if (box) {
        session_enter(session, SESSION_OPENING);
        if (session->current) {
            session->current->starts++;
        }
        r = box_session_open(box, &options, &session->guest, &fail);
    }
    if (r < 0) {
        session_enter(session, SESSION_NONE);
        session_kept_later(session);
    }
    if (r < 0 && session->current) {
        char sentence[SESSION_SENTENCE_BYTES];
        (void)snprintf(sentence, sizeof sentence, "The sandbox is not available: %s.",
                       fail_text(box ? &fail : why));
        session_conclude(session, FATE_REFUSED, sentence);
    } else if (r < 0 && !box && !server_box_is_ending(session->owner->server_box)) {
        log_error("tools", "sandbox: %s", fail_text(why)); /* no call reports it */
    }
    session_pump(session);
}

bool session_branch_waits(const struct session *session)
{
    const struct session *parent = session_parent(session);
    return parent && (parent->state == SESSION_WAITING || parent->state == SESSION_OPENING ||
                      parent->state == SESSION_RESTORING || parent->state == SESSION_KILLED ||
                      parent->state == SESSION_FAILOVER || parent->state == SESSION_CLOSING ||
                      session_kept_is_due(parent) ||
                      (session_runs(parent) && !parent->begun)); /* may not have read its run */
}

void session_start(struct session *session)
{
    struct session *parent = session_parent(session);
    if (parent && session->current->starts == 0) { /* its source is the session's too */
        session->cell = parent->cell;
        parent->cell += session->current->keep_ms == 0;
    }
    if (parent && session_runs(parent) && session_has_variables(parent) &&
        session_checkpoint(parent) != BOX_CHECKPOINT_THERE) {
        session_conclude(
            session, FATE_REFUSED,
            "Nothing was run: the session has no copy of its variables to branch from "
            "while its job runs, because the state is too large for a checkpoint. Wait "
            "for the job, or use fresh.");
        return;
    }
    session_enter(session, SESSION_WAITING);
    server_box_wait(session->owner->server_box, &session->waiter, session_box_ready, session);
}
