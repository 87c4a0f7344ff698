/* A session's interpreter: its start, and what the sandbox reports of it. Messages are in
 * session_messages.c. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "tools/run/outcome.h"
#include "tools/session/session_internal.h"

/* The run's fate was decided by the interpreter's end. */
static void session_done_by_end(struct session *session, const struct fate *fate,
                                const struct box_end *end)
{
    session->current->end.process = *end;
    session_done(session, fate);
}

static void session_refuse(struct session *session, const struct fail *why)
{
    char sentence[SESSION_SENTENCE_BYTES];
    (void)snprintf(sentence, sizeof sentence, "The sandbox is not available: %s.", fail_text(why));
    session_conclude(session, FATE_REFUSED, sentence);
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
 * sandbox/interpreter/checkpoint.c. */
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
    char gone[SESSION_NAMES_BYTES] = "";
    char older[SESSION_NAMES_BYTES] = "";
    session_state_back(session, fate.done, cell, gone, older, sizeof gone);
    if (fate.done) {
        run->end.restored_cell = cell;
        session_calls_stay(session, LEDGER_UNDO, cell);
        run_addf(run, RUN_GONE, "%s", gone);
        run_addf(run, RUN_OLDER, "%s", older);
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
                     outcome_end_text(end, why), cell, *gone ? ", variables lost: " : "", gone,
                     *older ? ", back to older values: " : "", older,
                     *older ? " " RUN_OLDER_NOTE : "");
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
    char gone[SESSION_NAMES_BYTES];
    session_add_killed(session, end->processes, end->names);
    session_memory_place(session, end);
    session_tell_stalled(session, end);
    session->calls.guest = NULL;
    if (fate.done) {
        session_calls_end(session);
    }
    session_calls_stay(session, LEDGER_UNDO, 0);
    session_state_lost(session, gone, sizeof gone);
    session->guest = NULL;
    session_enter(session, SESSION_NONE);
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
    if (box) {
        session_enter(session, SESSION_OPENING);
        r = box_session_open(box, &options, &session->guest, &fail);
    }
    if (r < 0) {
        session_enter(session, SESSION_NONE);
    }
    if (r < 0 && session->current) {
        session_refuse(session, box ? &fail : why);
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
                      (session_runs(parent) && !parent->begun)); /* may not have read its run */
}

void session_start(struct session *session)
{
    struct session *parent = session_parent(session);
    if (parent) {
        session->cell = parent->cell++; /* its source is the session's too */
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
