/* The states that a session can go back to: which there are, what becomes of them with each run, and
 * the way back. The sandbox keeps the processes, tools/history.c the order and the names. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "tools/outcome.h"
#include "tools/session_inside.h"

enum {
    SAVE_MS = 10000, /* for a checkpoint to be forked, then the interpreter is killed */
    STEP_PIDS = 16,  /* processes of the limit that pay for one step of undo */
    KILLED_MS =
        20, /* what is filled up takes longer: shorter calls are not asked for what was killed */
    NEARLY_FULL_PERCENT = 80, /* of the memory: the answer warns */
    CROWDED_PERCENT = 50,     /* of the memory: a step of undo makes room, */
    FULL_PERCENT = 75,        /* all of them do */
};

/* --- what is told --- */

void session_tell(struct session *session, const char *fmt, ...)
{
    size_t used = strlen(session->before);
    if (used > 0 && used + 2 < sizeof session->before) {
        used += (size_t)snprintf(session->before + used, sizeof session->before - used, "; ");
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(session->before + used, sizeof session->before - used, fmt, args);
    va_end(args);
}

void session_tell_cancelled(struct session *session, const struct run *run, const char *then)
{
    char back[128] = "";
    if (run->went_back) {
        (void)run_back_text(run, back);
    } else if (run->was_reset) {
        (void)snprintf(back, sizeof back, "reset");
    }
    if (*back || then) {
        session_tell(session, "a call was cancelled, state %s%s%s", back,
                     *back && then ? ", then " : "", then ? then : "");
    }
}

/* --- which checkpoints are kept --- */

static void session_forget(struct session *session, unsigned cell)
{
    char name[HISTORY_NAME_BYTES];
    if (*history_forget(&session->history, cell, name)) {
        session_tell(session, "the state \"%s\" is gone, its process was ended", name);
    }
}

static void session_keep_one(struct session *session, unsigned cell)
{
    for (unsigned i = 0; i < session->kept_count; i++) {
        if (session->kept[i] == cell) {
            return;
        }
    }
    if (box_session_keep(session->guest, cell, true)) {
        session->kept[session->kept_count++] = cell;
    } else {
        session_forget(session, cell);
    }
}

/* Tells the sandbox what has changed in the history. */
static void session_keep(struct session *session)
{
    unsigned cells[HISTORY_STEPS + HISTORY_NAMED];
    unsigned left = 0;
    for (unsigned i = 0; i < session->kept_count; i++) {
        unsigned cell = session->kept[i];
        bool wanted = history_uses(&session->history, cell);
        if (box_session_keep(session->guest, cell, wanted) && wanted) {
            session->kept[left++] = cell;
        }
    }
    session->kept_count = left;
    unsigned count = history_cells(&session->history, cells);
    for (unsigned i = 0; i < count; i++) {
        session_keep_one(session, cells[i]);
    }
}

/* After another process has become the session. */
static void session_keep_present(struct session *session)
{
    unsigned cell = session->history.now.cell;
    bool there = box_session_keep(session->guest, cell, history_uses(&session->history, cell));
    session->checkpoint = there ? CHECKPOINT_THERE : CHECKPOINT_NONE;
    session_keep(session);
}

static void session_push(struct session *session)
{
    const struct box_limits *limits = &workspace_spec(session->owner->workspace)->limits;
    history_push(&session->history);
    while (session->history.steps * STEP_PIDS > limits->pids) {
        (void)history_shorten(&session->history);
    }
}

/* --- what runs do to the state --- */

void session_state_made(struct session *session, const struct box_message *message)
{
    struct run *run = session->current;
    if (session->transient) {
        return;
    }
    if (!run->went_back || !run->back_name[0]) { /* a restore has done it */
        session_push(session);
    }
    session->history.now.cell = run->cell;
    session->checkpoint = CHECKPOINT_PENDING;
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        if (box_field_is(&message->fields[i], "var")) {
            names_change(&session->history.now.names, message->fields[i + 1].data,
                         message->fields[i + 1].size);
        }
    }
    session_keep(session);
}

void session_state_back(struct session *session, struct run *run, unsigned cell)
{
    struct history *history = &session->history;
    const struct history_state *state = history_of_cell(history, cell);
    struct history_state back = {.cell = cell};
    if (state || session->safe.cell == cell) {
        back.names = state ? state->names : session->safe.names;
    }
    if (run) {
        session_push(session);
    }
    if (cell != history->now.cell) {
        if (run) {
            (void)names_lost(&history->now.names, &back.names, run->gone, sizeof run->gone);
        }
        history->now = back;
    }
    session_keep_present(session);
}

void session_state_lost(struct session *session, char *names, size_t size)
{
    (void)names_lost(&session->history.now.names, NULL, names, size);
    if (session->history.named_count > 0) {
        session_tell(session, "the named states are gone with the interpreter");
    }
    session->history = (struct history){};
    session->safe = (struct history_state){};
    session->kept_count = 0;
    session->checkpoint = CHECKPOINT_NONE;
}

/* --- a name for the present state --- */

static void session_name_state(struct session *session)
{
    struct run *run = session->current;
    if (session->checkpoint != CHECKPOINT_THERE) {
        run->saving = RUN_SAVE_NO_ROOM;
        return;
    }
    history_name(&session->history, run->save, run->dropped);
    session_keep(session);
    run->saving = RUN_SAVED;
}

/* Waits for the checkpoint of the present state, which is being forked. */
static void session_await(struct session *session, enum session_state state)
{
    session->state = state;
    loop_timer_arm(session->owner->loop, &session->timer,
                   clock_now_ns() + SAVE_MS * CLOCK_NS_PER_MS, session_kill, session);
}

void session_state_save(struct session *session)
{
    session_await(session, SESSION_SAVING);
}

void session_on_checkpoint(void *arg, unsigned cell, bool exists)
{
    struct session *session = arg;
    bool present = cell == session->history.now.cell;
    if (present) {
        session->checkpoint = exists ? CHECKPOINT_THERE : CHECKPOINT_NONE;
    }
    if (present && exists) {
        session->safe = session->history.now;
    } else if (session->safe.cell == cell) {
        session->safe = (struct history_state){};
    }
    if (!exists && !session->transient) {
        if (present && !session->unprotected) {
            session_tell(session, "no copy of the state is there, a crash would lose it");
        }
        session_forget(session, cell);
    }
    if (present && session->state == SESSION_SAVING) {
        session_name_state(session);
        session->state = SESSION_IDLE;
        session_done(session, session->current->outcome, session->current->state);
        session_pump(session);
    } else if (present && session->state == SESSION_SETTLING) {
        loop_timer_disarm(&session->timer);
        session->state = SESSION_IDLE;
        session_pump(session);
    }
}

/* --- the way back --- */

/* Answers the current run with a sentence instead of carrying it out. Returns false. */
static bool session_decline(struct session *session, const char *text)
{
    (void)snprintf(session->current->text, sizeof session->current->text, "%s", text);
    session_done(session, RUN_REFUSED, RUN_STATE_KEPT);
    session_pump(session);
    return false;
}

/* name: of the state, or empty after an undo. */
static void session_went_back(struct run *run, unsigned cell, const char *name)
{
    run->went_back = true;
    run->back_cell = cell;
    (void)snprintf(run->back_name, sizeof run->back_name, "%s", name);
    run->undo = false;
    run->restore[0] = '\0';
}

static bool session_go(struct session *session, unsigned cell)
{
    if (!session->undoing) {
        session_keep_one(session, session->history.now.cell); /* undo leads back to it */
    }
    int r = box_session_restore(session->guest, cell);
    if (r == -EPIPE) {
        session_wait_for_heir(session);
        return false;
    }
    if (r < 0) {
        session_forget(session, cell);
        return session_decline(session,
                               "Nothing was changed: that state is not there any more, its "
                               "process was ended.");
    }
    session->goal = cell;
    session->state = SESSION_RESTORING;
    return false;
}

static bool session_undo(struct session *session)
{
    struct run *run = session->current;
    struct history *history = &session->history;
    if (history->steps == 0) {
        return session_decline(
            session,
            history->cut
                ? "Nothing was undone: no earlier state is held. undo reaches back 3 calls, "
                  "fewer when memory is short; give a state a name with `checkpoint` to "
                  "keep it longer."
                : "Nothing was undone: no call has changed this session since its "
                  "interpreter started.");
    }
    unsigned cell = history->before[history->steps - 1].cell;
    if (cell == history->now.cell) { /* a crash has already brought it back */
        (void)history_pop(history);
        session_went_back(run, cell, "");
        session_keep(session);
        return true;
    }
    if (cell > 0) {
        session->undoing = true;
        return session_go(session, cell);
    }
    if (history->named_count > 0) {
        return session_decline(session,
                               "Nothing was undone: before the last call there was only the fresh "
                               "interpreter. `reset` goes there, but drops the named states too.");
    }
    (void)history_pop(history);
    session_went_back(run, 0, "");
    session->safe = (struct history_state){};
    session->kept_count = 0;
    session->checkpoint = CHECKPOINT_NONE;
    session->resetting = true;
    session->state = SESSION_KILLED;
    box_session_close(session->guest);
    return false;
}

static bool session_restore(struct session *session)
{
    struct history *history = &session->history;
    const struct history_state *state = history_find(history, session->current->restore);
    if (state) {
        session->undoing = false;
        (void)snprintf(session->going_to, sizeof session->going_to, "%s", state->name);
        return session_go(session, state->cell);
    }
    char text[sizeof session->current->text];
    size_t used = (size_t)snprintf(
        text, sizeof text, "Nothing was run: no state is named \"%s\". %s",
        session->current->restore, history->named_count ? "Named states:" : "None has a name yet.");
    for (unsigned i = 0; i < history->named_count && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s \"%s\"", i ? "," : "",
                                 history->named[i].name);
    }
    return session_decline(session, text);
}

void session_state_taken(struct session *session, unsigned cell)
{
    struct history *history = &session->history;
    session->state = SESSION_IDLE;
    if (!session->current || cell != session->goal) {
        session_state_back(session, NULL, cell);
        session_tell(session, "%s the state is that after <cell %u>",
                     cell == session->goal ? "restored slowly:" : "checkpoint died during restore;",
                     cell);
        session_pump(session);
        return;
    }
    if (session->undoing) {
        (void)history_pop(history);
    } else {
        const struct history_state *state = history_find(history, session->going_to);
        struct history_state now = {.cell = cell};
        if (state) {
            now.names = state->names;
        }
        session_push(session);
        history->now = now;
    }
    session_went_back(session->current, cell, session->undoing ? "" : session->going_to);
    session_keep_present(session);
    session_pump(session);
}

/* What was killed ends slowly, or a checkpoint wakes slowly: no call waits for that, and no state goes for it. */
void session_on_slow(void *arg, const struct box_end *end)
{
    struct session *session = arg;
    struct run *run = session->current;
    bool ran = run && session->state >= SESSION_RUNNING && !session->unsent && !session->resetting;
    if (ran) {
        session_done(session, outcome_of_end(run, end, session_was_stopped(session, end)),
                     RUN_STATE_PENDING);
        session->state = SESSION_KILLED;
        session->unsent = true; /* whoever comes now has not begun */
    } else if (run && run->cancelled) {
        session_abandon(session);
    } else if (run) {
        (void)snprintf(run->text, sizeof run->text,
                       "The code has not begun: processes of an earlier call are killed and have "
                       "not ended yet. Try again later, or use another session.");
        session_done(session, RUN_REFUSED, RUN_STATE_KEPT);
    }
    session_pump(session);
}

static bool is_blank(const struct run *run)
{
    return strspn(run->code, " \t\r\n") == run->code_size;
}

bool session_state_wanted(struct session *session)
{
    struct run *run = session->current;
    bool nothing_to_run = is_blank(run) && run->save[0] && session->history.now.cell > 0;
    if (session->checkpoint == CHECKPOINT_PENDING &&
        (run->undo || run->restore[0] || nothing_to_run)) {
        session_await(session, SESSION_SETTLING);
        return false;
    }
    if (run->undo && !session_undo(session)) {
        return false;
    }
    if (run->restore[0] && !session_restore(session)) {
        return false;
    }
    if (!nothing_to_run && !(is_blank(run) && run->went_back)) {
        return true;
    }
    if (run->save[0]) {
        session_name_state(session);
    }
    session_done(session, RUN_OK, RUN_STATE_KEPT);
    session_pump(session);
    return false;
}

/* --- memory --- */

void session_state_crowded(struct session *session)
{
    struct run *run = session->current;
    bool dropped = false;
    while (history_shorten(&session->history)) {
        dropped = true;
    }
    if (dropped || session->history.named_count > 0) {
        (void)snprintf(run->memory, sizeof run->memory, "%s%s",
                       dropped ? "the states for undo were dropped to make room" : "",
                       session->history.named_count > 0
                           ? " (named states hold memory too; reset drops them)"
                           : "");
        session_keep(session);
    }
}

void session_state_make_room(struct session *session, const struct box_message *message)
{
    struct run *run = session->current;
    if (session->transient) {
        return;
    }
    uint64_t limit = workspace_spec(session->owner->workspace)->limits.memory_bytes;
    uint64_t own = outcome_number(message, "memory");
    struct box *box = workspace_box(session->owner->workspace);
    uint64_t counted = box ? box_memory_used(box, limit / 100 * CROWDED_PERCENT) : 0;
    uint64_t used =
        counted ? counted : 2 * own; /* nobody counts: as if the next call replaced it */
    session->unprotected = outcome_number(message, "unprotected") > 0;
    if (session->unprotected) {
        char then[48] = "loses it";
        if (session->safe.cell > 0) {
            (void)snprintf(then, sizeof then, "goes back to after <cell %u>", session->safe.cell);
        }
        (void)snprintf(run->memory, sizeof run->memory,
                       "checkpoint: none, the state of %llu MiB leaves no room for one under "
                       "--memory %lluM; a crash %s",
                       (unsigned long long)(own >> 20), (unsigned long long)(limit >> 20), then);
    } else if (clock_now_ns() - run->started_ns > KILLED_MS * CLOCK_NS_PER_MS && box &&
               box_memory_killed(box)) {
        (void)snprintf(run->memory, sizeof run->memory,
                       "memory ran out, and a process that the code had started was killed "
                       "(--memory %lluM)",
                       (unsigned long long)(limit >> 20));
    } else if (counted / NEARLY_FULL_PERCENT >= limit / 100) {
        (void)snprintf(run->memory, sizeof run->memory, "memory: %llu of %llu MiB in use",
                       (unsigned long long)(counted >> 20), (unsigned long long)(limit >> 20));
    }
    bool crowded = session->unprotected || used / CROWDED_PERCENT >= limit / 100;
    bool full = used + own > limit || used / FULL_PERCENT >= limit / 100;
    while ((crowded || full) && history_shorten(&session->history)) {
        crowded = false;
    }
    session_keep(session);
}
