/* The checkpoints of a session: which are suspended, which stay, which one replaces the
 * interpreter. */
#include <errno.h>
#include <signal.h>

#include "sandbox/interpreter/process.h"

static struct session_checkpoint *checkpoint_of_cell(struct box_session *session, unsigned cell)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid > 0 && session->checkpoints[i].cell == cell) {
            return &session->checkpoints[i];
        }
    }
    return NULL;
}

/* pid: 0: a free entry. */
static struct session_checkpoint *checkpoint_of_pid(struct box_session *session, pid_t pid)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid == pid) {
            return &session->checkpoints[i];
        }
    }
    return NULL;
}

static void checkpoint_forget(struct box_session *session, struct session_checkpoint *checkpoint)
{
    *checkpoint = (struct session_checkpoint){};
    struct session_checkpoint **const uses[] = {&session->latest, &session->target,
                                                &session->waking};
    for (unsigned i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (*uses[i] == checkpoint) {
            *uses[i] = NULL;
        }
    }
}

/* An error: init reports no exit. It does not watch the process, or code presented its own child,
 * which only code can reap. */
static void checkpoint_killed(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box *box = arg;
    box->sessions.leaving -= reply->error && box->sessions.leaving > 0;
}

static void checkpoint_kill(struct box_session *session, struct session_checkpoint *checkpoint)
{
    struct wire_request request = {
        .op = WIRE_SIGNAL, .pid = checkpoint->pid, .tag = session->tag, .signal = SIGKILL};
    if (box_ask(session->box, &request, checkpoint_killed, session->box) == 0) {
        session->box->sessions.leaving++;
    }
    checkpoint_forget(session, checkpoint);
}

void session_checkpoints_kill(struct box_session *session)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid > 0) {
            checkpoint_kill(session, &session->checkpoints[i]);
        }
    }
}

static struct box_session *session_of_pid(const struct box *box, pid_t pid,
                                          struct session_checkpoint **ret_checkpoint)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        *ret_checkpoint = checkpoint_of_pid(session, pid);
        if (*ret_checkpoint) {
            return session;
        }
    }
    return NULL;
}

bool session_checkpoint_is(const struct box *box, pid_t pid)
{
    struct session_checkpoint *checkpoint = NULL;
    return pid > 0 && session_of_pid(box, pid, &checkpoint) != NULL;
}

bool session_checkpoint_exited(struct box *box, pid_t pid)
{
    struct session_checkpoint *checkpoint = NULL;
    struct box_session *session = session_of_pid(box, pid, &checkpoint);
    if (!session) {
        box->sessions.leaving -= box->sessions.leaving > 0;
        return false;
    }
    unsigned cell = checkpoint->cell;
    bool was_waking = checkpoint == session->waking;
    checkpoint_forget(session, checkpoint);
    if (was_waking) {
        session_checkpoint_wake_failed(session);
    } else {
        session->events->on_checkpoint(session->arg, cell, BOX_CHECKPOINT_THERE);
    }
    return true;
}

/* Only a watched process can be woken, and init watches only processes of this session. */
static void checkpoint_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error && reply->error != ECONNRESET) {
        (void)session_checkpoint_exited(session->box, reply->pid);
    }
}

/* Enters the checkpoint in place of the one with the same cell. Returns NULL when it is not
 * valid. */
static struct session_checkpoint *checkpoint_enter(struct box_session *session,
                                                   const struct box_message *message, unsigned cell)
{
    struct session_checkpoint *other = NULL;
    struct session_checkpoint *entry = checkpoint_of_cell(session, cell);
    pid_t pid = session_message_pid(message, "checkpoint");
    if (pid == 0 || pid == session->pid || session_of_pid(session->box, pid, &other)) {
        return NULL;
    }
    bool kept = entry && entry->kept;
    if (entry && entry != session->waking) {
        checkpoint_kill(session, entry);
    }
    entry = entry ? entry : checkpoint_of_pid(session, 0);
    if (entry) {
        struct wire_request request = {
            .op = WIRE_WATCH, .pid = pid, .tag = session->tag, .role = WIRE_ROLE_CHECKPOINT};
        *entry = (struct session_checkpoint){.pid = pid, .cell = cell, .kept = kept};
        (void)box_ask(session->box, &request, checkpoint_watched, session);
    }
    return entry;
}

void session_checkpoint_made(struct box_session *session, const struct box_message *message)
{
    uint64_t cell = box_message_number(message, "cell", UINT64_MAX);
    if (cell > UINT32_MAX) {
        return;
    }
    struct session_checkpoint *made = checkpoint_enter(session, message, (unsigned)cell);
    struct session_checkpoint *before = session->latest;
    if (made) {
        session->latest = made;
        if (before && before != made && !before->kept) {
            checkpoint_kill(session, before);
        }
    }
    session->events->on_checkpoint(session->arg, (unsigned)cell, BOX_CHECKPOINT_AWAITED);
}

void session_checkpoint_resumed(struct box_session *session, const struct box_message *message)
{
    struct session_checkpoint *polling = session->waking;
    struct session_checkpoint *before = session->latest;
    unsigned cell = polling->cell;
    session->pid = polling->pid;
    session->latest = checkpoint_enter(session, message, cell); /* in the woken one's entry */
    if (!session->latest) {
        checkpoint_forget(session, polling);
    }
    session->waking = NULL;
    session->target = NULL;
    session->awaited = 0;
    if (before && before != polling && !before->kept) {
        checkpoint_kill(session, before);
    }
    session->death = (struct session_death){};
    process_step(session, PROCESS_RESUMED);
    if (session_watch(session) < 0) { /* init watches it already: only its role changes */
        session_lose(session);
    }
    if (!session->latest) {
        session->events->on_checkpoint(session->arg, cell, BOX_CHECKPOINT_THERE);
    }
    session->events->on_restored(session->arg, &session->end, cell, message);
}

void session_checkpoint_wake(struct box_session *session)
{
    struct session_checkpoint *best = session->target ? session->target : session->latest;
    for (unsigned i = 0; !(session->target || session->latest) && i < SESSION_CHECKPOINTS; i++) {
        struct session_checkpoint *entry = &session->checkpoints[i];
        if (entry->pid > 0 && (!best || entry->cell > best->cell)) {
            best = entry;
        }
    }
    session->waking = best;
    if (!best) {
        session_gone(session);
        return;
    }
    session_wake_watch(session);
    session_signal_pid(session, best->pid, SIGUSR2);
}

void session_checkpoint_wake_failed(struct box_session *session)
{
    if (session->waking) {
        checkpoint_kill(session, session->waking);
    }
    process_step(session, PROCESS_FAILED);
}

void box_session_await_checkpoint(struct box_session *session, unsigned cell)
{
    session->awaited = cell;
}

enum box_checkpoint box_session_checkpoint(struct box_session *session, unsigned cell)
{
    if (!session || cell == 0) {
        return BOX_CHECKPOINT_NONE;
    }
    return checkpoint_of_cell(session, cell) ? BOX_CHECKPOINT_THERE
           : session->awaited == cell        ? BOX_CHECKPOINT_AWAITED
                                             : BOX_CHECKPOINT_NONE;
}

void box_session_keep(struct box_session *session, const unsigned *cells, unsigned count)
{
    for (struct session_checkpoint *at = session->checkpoints;
         at < session->checkpoints + SESSION_CHECKPOINTS; at++) {
        at->kept = false;
        for (unsigned i = 0; i < count; i++) {
            at->kept = at->kept || (at->pid > 0 && at->cell == cells[i]);
        }
        if (at->pid > 0 && !at->kept && at != session->latest && at != session->target &&
            at != session->waking) {
            checkpoint_kill(session, at);
        }
    }
}

bool box_session_give_up(struct box_session *session)
{
    struct session_checkpoint *latest = session->latest;
    if (session->state != PROCESS_READY || !latest || latest->kept) {
        return false;
    }
    checkpoint_kill(session, latest);
    return true;
}

int box_session_restore(struct box_session *session, unsigned cell)
{
    struct session_checkpoint *checkpoint = checkpoint_of_cell(session, cell);
    if (session->state != PROCESS_READY) {
        return -EPIPE;
    }
    if (!checkpoint) {
        return -ENOENT;
    }
    session->target = checkpoint;
    if (session->latest) {
        session->latest->kept = true;
    }
    box_session_kill(session);
    return 0;
}
