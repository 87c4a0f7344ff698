/* The states that a session can restore: which exist, how each run changes them, and how they are
 * restored. The sandbox keeps the processes, tools/session/history.c the order and the names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/loop.h"
#include "tools/run/run.h"
#include "tools/session/history.h"
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
    bool looks = box_message_number(message, "looks", 0) > 0 && !run->stop;
    if (!looks && !run_fact(run, RUN_BACK_NAME)[0]) { /* a restore has already pushed it */
        session_push(session);
    }
    session->history.now.cell = run->cell;
    session->history.now.calls = session->calls.ledger.newest;
    session->history.now.by = looks ? session->history.now.by : run->cell;
    session_files_made(session);
    box_session_await_checkpoint(session->guest, run->cell);
    if (!looks) {
        session_kept_change(session);
    }
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        if (box_field_is(&message->fields[i], "var") ||
            box_field_is(&message->fields[i], "module")) {
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
        session_kept_change(session);
    }
    if (by_run) {
        history->now.by = session->current->cell;
    }
    session_keep(session);
}

void session_state_lost(struct session *session, char names[SESSION_NAMES_BYTES])
{
    (void)names_lost(&session->history.now.names, NULL, names, SESSION_NAMES_BYTES);
    if (session->history.named_count > 0 && !(session->current && session->current->was_reset)) {
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
        session_kept_remove(session);
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
    const struct session *other = strcmp(name, RUN_LEFT) != 0 ? session->owner->list : NULL;
    while (other && !history_find(&other->history, name)) {
        other = other->next;
    }
    if (other) {
        buf_extend(text, sizeof text, "%sSession \"%s\" has one of this name.",
                   has_names(history) ? ". " : " ", other->name);
    }
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
    session_kept_change(session);
    session_keep(session);
    session_note_left(session); /* unless its process has ended */
}

/* What makes way when memory gets short, and where the code is when it runs out.
 *
 * The kernel kills without a report, so the place must be known before. While code runs, the server
 * checks the memory in use, more often when less is left. From three quarters of the limit on, each
 * growth by a part of what is left makes the interpreters write a trace. The last trace of the one
 * that dies shows the place. Where no control group counts, init requests a trace from the
 * interpreter that it is about to kill. */

/* Filling the memory takes longer: after shorter calls nothing was killed. */
enum { KILLED_MS = 20 };

static bool is_running(const struct session *session)
{
    return session->state == SESSION_RUNNING && session->guest;
}

static bool any_runs(const struct sessions *sessions)
{
    return list_find(sessions->list, session, is_running(session)) != NULL;
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
    if (!checkpoint_memory_is_full(&memory) || sessions_kept_yield(sessions) ||
        !box_memory_of_checkpoints(box, &held)) {
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
    bool lost = session->next_result.lost_steps;
    bool none = lost && left == 0;
    bool reported = none && session->next_result.no_steps;
    session->next_result.no_steps = none;
    session->next_result.lost_steps = false;
    if (!lost || reported) {
        return;
    }
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
