/* The states that a session can restore: which exist, how each run changes them, and how they are
 * restored. The sandbox keeps the processes, tools/session/history.c the order and the names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tools/session/memory_policy.h"
#include "tools/session/session_internal.h"

enum { SAVE_MS = 5000 }; /* then the result says that the checkpoint is still being forked */

/* --- what the next result reports --- */

void session_tell(struct session *session, const char *fmt, ...)
{
    size_t used = strlen(session->next_result.before);
    session->next_result.tells_dropped = false;
    if (used > 0 && used + 2 < sizeof session->next_result.before) {
        used += (size_t)snprintf(session->next_result.before + used,
                                 sizeof session->next_result.before - used, "; ");
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(session->next_result.before + used, sizeof session->next_result.before - used,
                    fmt, args);
    va_end(args);
}

void session_tell_cancelled(struct session *session, const struct run *run, const char *then)
{
    const char *back = run->was_reset ? "reset" : run_fact(run, RUN_BACK);
    if (*back || then) {
        session_tell(session, "a call was cancelled, state %s%s%s", back,
                     *back && then ? ", then " : "", then ? then : "");
    }
}

/* --- which checkpoints are kept --- */

#define STATE_EXITED "its process has ended, as it does when memory is short"

static void session_forget(struct session *session, unsigned cell, const char *why)
{
    char name[HISTORY_NAME_BYTES];
    if (*history_forget(&session->history, cell, name)) {
        session_tell(session, "the state \"%s\" is lost, %s", name, why);
    }
}

enum box_checkpoint session_checkpoint(const struct session *session)
{
    return box_session_checkpoint(session->guest, session->history.now.cell);
}

static bool is_kept(const void *history, unsigned cell)
{
    return history_of_cell(history, cell) != NULL;
}

void session_keep(struct session *session)
{
    const struct history_state *state = NULL;
    if (session->guest) {
        box_session_keep(session->guest, is_kept, &session->history);
    }
    session_files_keep(session);
    for (unsigned i = 0; (state = history_at(&session->history, i));) {
        bool lost = state->cell > 0 &&
                    box_session_checkpoint(session->guest, state->cell) == BOX_CHECKPOINT_NONE;
        if (lost) {
            session_forget(session, state->cell, STATE_EXITED);
        }
        i = lost ? 0 : i + 1;
    }
}

static void session_push(struct session *session)
{
    const struct box_limits *limits = &server_box_spec(session->owner->server_box)->limits;
    history_push(&session->history);
    const struct history *history = &session->history;
    unsigned most = checkpoint_steps_most(limits->pids);
    while (history->steps + (history->left.cell > 0) > most && history_shorten(&session->history)) {
    }
}

/* --- what runs do to the state --- */

void session_state_made(struct session *session, const struct box_message *message)
{
    struct run *run = session->current;
    if (session->transient) {
        return;
    }
    /* It has nothing to undo. What stops a job is perhaps an undo, which takes it back and not the
     * call before it. */
    bool looks = box_message_number(message, "looks", 0) > 0 && run->stop != RUN_STOP_REQUESTED;
    if (!looks && !run_fact(run, RUN_BACK_NAME)[0]) { /* a restore has already pushed it */
        session_push(session);
    }
    session->history.now.cell = run->cell;
    session->history.now.calls = session->calls.ledger.newest;
    session->history.now.by = looks ? session->history.now.by : run->cell;
    session_files_made(session);
    box_session_await_checkpoint(session->guest, run->cell);
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        if (box_field_is(&message->fields[i], "var")) {
            names_change(&session->history.now.names, message->fields[i + 1].data,
                         message->fields[i + 1].size, run->cell);
        }
    }
    session_keep(session);
}

void session_state_untouched(struct session *session)
{
    session_push(session);
    session->history.now.by = 0;
    session_files_made(session);
    session_keep(session);
}

void session_state_back(struct session *session, bool by_run, unsigned cell,
                        struct lost_names *lost)
{
    struct history *history = &session->history;
    const struct history_state *state = history_of_cell(history, cell);
    struct history_state back = {
        .cell = cell, .files = history->now.files, .calls = history->now.calls};
    state = !state && session->safe.cell == cell ? &session->safe : state;
    if (state) {
        back.names = state->names;
        back.calls = state->calls;
    }
    if (by_run) {
        session_push(session);
        session_files_made(session);
        back.files = history->now.files;
    }
    if (cell != history->now.cell) {
        (void)names_lost(&history->now.names, &back.names, lost->gone, sizeof lost->gone);
        (void)names_older(&history->now.names, &back.names, lost->older, sizeof lost->older);
        history->now = back;
    }
    if (by_run) {
        history->now.by = session->current->cell;
    }
    session_keep(session);
}

void session_state_lost(struct session *session, char names[SESSION_NAMES_BYTES])
{
    (void)names_lost(&session->history.now.names, NULL, names, SESSION_NAMES_BYTES);
    if (session->history.named_count > 0) {
        session_tell(session, "the named states are lost with the interpreter");
    }
    ledger_done(&session->calls.ledger);
    struct history_state left = session->history.left;
    session->history = (struct history){};
    if (left.cell == 0 && server_box_get(session->owner->server_box)) {
        session->history.left = left; /* files stay */
    }
    session->goal = 0;
    session->safe = (struct history_state){};
}

/* --- a name for the present state --- */

void session_name_state(struct session *session)
{
    struct run *run = session->current;
    if (session_checkpoint(session) == BOX_CHECKPOINT_NONE) {
        run_addf(run, RUN_SAVED, "not saved");
        run_addf(run, RUN_UNSAVED, "not enough memory or processes");
        return;
    }
    char dropped[HISTORY_NAME_BYTES];
    history_name(&session->history, run->request.save, dropped);
    run_addf(run, RUN_SAVE_DROPPED, "%s", dropped);
    session_keep(session);
    if (session_checkpoint(session) == BOX_CHECKPOINT_THERE) {
        run_addf(run, RUN_SAVED, "saved");
    } else {
        run_addf(run, RUN_SAVED, "not yet saved");
        run_addf(run, RUN_UNSAVED, "still being saved");
    }
}

/* A timer's function: the checkpoint may still be forked. */
static void session_await_over(void *arg)
{
    struct session *session = arg;
    char text[SESSION_SENTENCE_BYTES];
    (void)snprintf(text, sizeof text,
                   "Nothing was run: the state after <cell %u> is still being saved. Try again "
                   "later, or drop that state with `undo`.",
                   session->history.now.cell);
    session_enter(session, SESSION_IDLE);
    if (session->current->request.undo) { /* that state is given up */
        session->current->gives_up = true;
    } else {
        session_conclude(session, FATE_REFUSED, text);
    }
    session_pump(session);
}

/* The run's own time begins after this wait. */
static void session_awaited(struct session *session)
{
    struct run *run = session->current;
    const char *waited = run_fact(run, RUN_WAITED);
    uint64_t seconds = (clock_now_ns() - session->awaits_ns) / CLOCK_NS_PER_MS / 1000;
    if (seconds > 0) {
        run_addf(run, RUN_WAITED, "%s%s%llu s for the state after <cell %u> to be saved",
                 waited[0] ? waited : "waited ", waited[0] ? ", " : "", (unsigned long long)seconds,
                 session->history.now.cell);
    }
    session_enter(session, SESSION_IDLE);
}

void session_await_checkpoint(struct session *session)
{
    struct run *run = session->current;
    session->awaits_ns = clock_now_ns();
    uint64_t wait_ms =
        run->request.timeout_ms > SAVE_MS && !run->request.undo ? run->request.timeout_ms : SAVE_MS;
    session_enter(session, SESSION_CHECKPOINTING);
    (void)snprintf(run->doing, sizeof run->doing,
                   "waiting for the state after <cell %u> to be saved", session->history.now.cell);
    loop_timer_in(session->owner->loop, &session->timer, wait_ms, session_await_over, session);
}

/* Also a timer's function: then the state has its name, and the checkpoint when it is forked. */
static void session_saved(void *arg)
{
    struct session *session = arg;
    session_name_state(session);
    session_enter(session, SESSION_IDLE);
    session_done(session, &session->fate);
    session_pump(session);
}

void session_save(struct session *session)
{
    session_enter(session, SESSION_SAVING);
    loop_timer_in(session->owner->loop, &session->timer, SAVE_MS, session_saved, session);
}

void session_on_checkpoint(void *arg, unsigned cell, enum box_checkpoint before)
{
    struct session *session = arg;
    bool present = cell == session->history.now.cell;
    bool exists = box_session_checkpoint(session->guest, cell) == BOX_CHECKPOINT_THERE;
    if (present && exists) {
        session->safe = session->history.now;
        session_keep(session); /* it may have a name already */
    } else if (session->safe.cell == cell) {
        session->safe = (struct history_state){};
    }
    if (!exists && !session->transient) {
        if (present) {
            session_tell(session, "no checkpoint of the last call; a crash loses its changes");
        }
        session_forget(session, cell,
                       before == BOX_CHECKPOINT_THERE ? STATE_EXITED : "it could not be copied");
    }
    if (present && session->state == SESSION_SAVING) {
        session_saved(session);
    } else if (present && session->state == SESSION_CHECKPOINTING) {
        session_awaited(session);
        session_pump(session);
    }
}

/* --- undo and restore --- */

static void session_note_left(struct session *session)
{
    run_addf(session->current, RUN_LEFT_STATE, "%s", session->history.left.name[0] ? RUN_LEFT : "");
}

void session_left_nothing(struct session *session)
{
    if (session->history.left.cell == 0) {
        session->history.left = (struct history_state){};
        session_note_left(session);
    }
}

/* Adds to RUN_BACK which variables went: from those of left to those of now (NULL: none). */
static void note_variables(struct run *run, const struct names *left, const struct names *now)
{
    char gone[SESSION_NAMES_BYTES];
    char back[SESSION_NAMES_BYTES] = "";
    char older[SESSION_NAMES_BYTES] = "";
    (void)names_lost(left, now, gone, sizeof gone);
    if (now) {
        (void)names_lost(now, left, back, sizeof back);
        (void)names_older(left, now, older, sizeof older);
    }
    run_addf(run, RUN_BACK, "%s%s%s%s%s%s%s", run_fact(run, RUN_BACK),
             gone[0] ? ", variables removed: " : "", gone,
             back[0] || older[0] ? ", variables back: " : "", older,
             back[0] && older[0] ? ", " : "", back);
}

/* The name of the state that the run asks for; empty: undo leads there. */
static const char *asked_name(const struct run *run)
{
    return run->request.undo ? "" : run->request.restore;
}

/* undone: the cell that an undo takes back; 0: none alone. */
static void session_went_back(struct session *session, unsigned cell, unsigned undone)
{
    struct run *run = session->current;
    const char *name = asked_name(run);
    session_note_left(session);
    char where[48] = "before the first call";
    if (cell > 0) {
        (void)snprintf(where, sizeof where, "after <cell %u>", cell);
    }
    if (name[0]) {
        run_addf(run, RUN_BACK, "restored \"%s\": back to the state %s", name, where);
    } else if (undone > 0) {
        run_addf(run, RUN_BACK, "undid <cell %u>: back to the state %s", undone, where);
    } else {
        run_addf(run, RUN_BACK, "undo: back to the state %s", where);
    }
    run_addf(run, RUN_BACK_NAME, "%s", name);
    session_calls_stay(session, name[0] ? LEDGER_SINCE : LEDGER_UNDO, cell);
    run->back_cell = cell;
    run->request.undo = false;
    run->request.restore[0] = '\0';
}

static void session_go(struct session *session, unsigned cell)
{
    int r = box_session_restore(session->guest, cell);
    if (r == -EPIPE) {
        session_enter(session, SESSION_FAILOVER);
    } else if (r < 0) {
        session_forget(session, cell, STATE_EXITED);
        session_conclude(session, FATE_REFUSED,
                         "Nothing was changed: that state is lost, " STATE_EXITED);
    } else {
        session->goal = cell;
        session_enter(session, SESSION_RESTORING);
    }
}

void session_undo(struct session *session)
{
    struct history *history = &session->history;
    if (history->steps == 0) {
        session_conclude(
            session, FATE_REFUSED,
            history->cut
                ? "Nothing was undone: no earlier state is kept. `undo` goes back up to 3 calls, "
                  "fewer when memory is short; name a state with `checkpoint` to keep it longer."
                : "Nothing was undone: no call has changed this session since its "
                  "interpreter started.");
        return;
    }
    unsigned cell = history->before[history->steps - 1].cell;
    if (cell == history->now.cell) { /* a crash has already brought it back */
        session_state_taken(session, cell);
    } else if (cell > 0) {
        session_go(session, cell);
    } else if (history->named_count > 0) {
        session_conclude(session, FATE_REFUSED,
                         "Nothing was undone: before the last call there was only a fresh "
                         "interpreter. `reset` starts one, but drops the named states too.");
    } else {
        session->files.goal = history->before[history->steps - 1].files;
        /* Its process ends with the interpreter. */
        history_leave(history, &(struct history_state){.files = history->now.files});
        session_went_back(session, 0, history->now.by);
        note_variables(session->current, &history->now.names, NULL);
        session_close(session);
    }
}

static bool has_names(const struct history *history)
{
    return history->named_count > 0 || history->left.name[0];
}

/* Writes the names of all named states, each after a space. */
static void list_names(const struct history *history, char *out, size_t size)
{
    out[0] = '\0';
    for (unsigned i = 0; i < history->named_count; i++) {
        buf_extend(out, size, "%s \"%s\"", i ? "," : "", history->named[i].name);
    }
    if (history->left.name[0]) {
        buf_extend(out, size, "%s \"" RUN_LEFT "\"", out[0] ? "," : "");
    }
}

static void session_refuse_name(struct session *session, const char *name)
{
    const struct history *history = &session->history;
    char text[SESSION_SENTENCE_BYTES];
    size_t used =
        (size_t)snprintf(text, sizeof text, "Nothing was run: no state is named \"%s\". %s", name,
                         has_names(history) ? "Named states:" : "No state has a name.");
    list_names(history, text + used, sizeof text - used);
    session_conclude(session, FATE_REFUSED, text);
}

/* RUN_LEFT of an undo of the first call: the variables stay as they are. */
static void session_restore_files(struct session *session)
{
    struct history *history = &session->history;
    const uint32_t files = history->left.files;
    history->now.files = history->now.files ? history->now.files : session->files.at;
    const struct history_state left = history->now;
    session_push(session);
    history->now.files = files;
    history->now.by = 0;
    history_leave(history, &left);
    session->files.goal = files;
    session_went_back(session, left.cell, 0);
    run_addf(session->current, RUN_BACK,
             "restored \"" RUN_LEFT
             "\": the files are those before the undo, variables stay as "
             "they are");
    session_keep(session);
}

void session_restore(struct session *session)
{
    struct history *history = &session->history;
    const struct run *run = session->current;
    const struct history_state *state = history_find(history, run->request.restore);
    if (!state) {
        session_refuse_name(session, run->request.restore);
    } else if (state->cell == 0) {
        session_restore_files(session);
    } else {
        session_go(session, state->cell);
    }
}

void session_drop_named(struct session *session)
{
    struct run *run = session->current;
    if (!history_drop(&session->history, run->request.drop)) {
        session_refuse_name(session, run->request.drop);
        return;
    }
    session_keep(session);
    run_addf(run, RUN_NAMED_STATES, "\"%s\" dropped", run->request.drop);
    run->request.drop[0] = '\0';
}

void session_list_left(struct session *session)
{
    struct run *run = session->current;
    const struct history *history = &session->history;
    const char *named = run_fact(run, RUN_NAMED_STATES);
    char left[600] = "";
    if (named[0]) {
        list_names(history, left, sizeof left);
        run_addf(run, RUN_NAMED_STATES, "%s, %s%s", named, left[0] ? "left:" : "none left", left);
    }
}

void session_state_taken(struct session *session, unsigned cell)
{
    struct history *history = &session->history;
    const struct history_state left = history->now;
    const char *name = asked_name(session->current);
    if (name[0]) {
        const struct history_state *state = history_find(history, name);
        struct history_state now = state ? *state : (struct history_state){.calls = left.calls};
        now.cell = cell;
        now.by = 0;
        now.name[0] = '\0';
        session_push(session);
        history->now = now;
    } else {
        (void)history_pop(history);
    }
    history_leave(history, &left);
    session->files.goal = history->now.files;
    session_went_back(session, cell, left.by);
    note_variables(session->current, &left.names, &history->now.names);
    session_keep(session);
    session_note_left(session); /* unless its process has ended */
}
