/* The server's view of one interpreter: a control socket, two pipes, and checkpoints.
 *
 *   QUEUED ──begin──► FORKING ──hello──► WATCHING ──watched──► READY ◄─────resumed─────┐
 *      │                 │                │ │ └────exit────► EXITED ◄─exit─┘ │           │
 *      │                 │                │ └──────kill────────┼─► KILLING ◄─┘kill       │
 *     kill              kill           unknown             kill│    │    │              │
 *      │                 │                │                    │ exit, swept            │
 *      │                 │                │                    │unknown ▼              │
 *      └─────────────────┴────────────────┴──► SWEEPING ◄──────┴────┘ REAPING            │
 *                                                 │swept        exit, unknown│            │
 *                                                 └────────► WAKING ◄────────┘            │
 *                                   (freed) ◄─no checkpoint─────┘ └─────────────────────┘
 *
 * READY leads to SWEEPING as well, when init does not know a process that was woken, and so does
 * WAKING, when the checkpoint exits or hangs.
 *
 * After each result the interpreter forks a checkpoint, a suspended copy that shares its
 * sockets. On kill, init kills everything with the session's tag except the checkpoints, so what
 * the interpreter has started does not outlive it. When the interpreter has exited and init has
 * responded that nothing else is left, nothing writes to the socket or the pipes any more: the
 * server takes or drops what is left in them and wakes a checkpoint, which is the session's
 * process from then on. Without one, the session ends. box_kill() ends it in any state. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "sandbox/interpreter/interpreter.h"
#include "sandbox/interpreter/process.h"

static const enum process_state next_state[PROCESS_STATES][PROCESS_EVENTS] = {
    /* No event leads to QUEUED, so it stands for "no change". */
    [PROCESS_QUEUED] = {[PROCESS_BEGIN] = PROCESS_FORKING, [PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_FORKING] = {[PROCESS_HELLO] = PROCESS_WATCHING, [PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_WATCHING] = {[PROCESS_WATCHED] = PROCESS_READY,
                          [PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                          [PROCESS_EXIT] = PROCESS_EXITED,
                          [PROCESS_KILL] = PROCESS_KILLING},
    [PROCESS_READY] = {[PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                       [PROCESS_EXIT] = PROCESS_EXITED,
                       [PROCESS_KILL] = PROCESS_KILLING},
    [PROCESS_EXITED] = {[PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_KILLING] = {[PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                         [PROCESS_EXIT] = PROCESS_SWEEPING,
                         [PROCESS_SWEPT] = PROCESS_REAPING},
    [PROCESS_SWEEPING] = {[PROCESS_SWEPT] = PROCESS_WAKING},
    [PROCESS_REAPING] = {[PROCESS_UNKNOWN] = PROCESS_WAKING, [PROCESS_EXIT] = PROCESS_WAKING},
    [PROCESS_WAKING] = {[PROCESS_RESUMED] = PROCESS_READY, [PROCESS_FAILED] = PROCESS_SWEEPING},
};

static struct box_end process_outcome(struct box_session *session)
{
    struct box *box = session->box;
    struct box_end end = session->death.end;
    int status = session->death.status;
    if (session->death.over) {
        return end;
    }
    if (end.kind == BOX_END_OOM) {
        box->memory_killed = false;
    } else if (end.kind == BOX_END_EXIT && WIFSIGNALED(status)) {
        end.kind = BOX_END_SIGNAL;
        end.code = WTERMSIG(status);
    } else if (end.kind == BOX_END_EXIT) {
        end.code = WEXITSTATUS(status);
    }
    if (end.kind != BOX_END_SIGNAL || end.code != SIGKILL || !cgroup_oom_happened(&box->cgroup)) {
        return end;
    }
    end.kind = BOX_END_OOM;
    end.code = 0;
    end.limit_bytes = box->spec->memory_enclosing;
    if (cgroup_has(&box->cgroup, CGROUP_MEMORY)) {
        uint64_t peak = cgroup_memory_peak(&box->cgroup);
        end.limit_bytes = box->spec->limits.memory_bytes;
        end.used_bytes = peak ? peak : end.limit_bytes;
        /* It may have grown since the ranking. */
        end.blame =
            box->rank.tag && box->rank.tag != session->tag ? BOX_BLAME_UNKNOWN : BOX_BLAME_ITS_OWN;
        end.files_bytes = cgroup_memory_files(&box->cgroup);
    }
    return end;
}

/* The server kills it for this reason; what init has killed it for counts more. */
static void process_condemn(struct box_session *session, enum box_end_kind cause)
{
    struct box_end *end = &session->death.end;
    end->kind = end->kind == BOX_END_OOM || end->kind == BOX_END_DISK ? end->kind : cause;
}

/* Unlinks the session, reports its end and frees it. */
static void process_finish(struct box_session *session)
{
    const struct box_end end = process_outcome(session);
    list_remove(&session->box->sessions.list, session);
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->control.io);
    box_session_drain(session);
    pipes_close(session);
    session->events->on_end(session->arg, &end);
    process_free(session);
}

int process_signal_pid(struct box_session *session, pid_t pid, int signal, init_client_fn fn,
                       void *arg)
{
    struct wire_request request = {
        .op = WIRE_SIGNAL, .pid = pid, .tag = session->tag, .signal = signal};
    return box_ask(session->box, &request, fn, arg);
}

void process_gone(struct box_session *session)
{
    checkpoints_kill(session);
    process_finish(session);
}

/* The interpreter and everything that it started are gone. */
static void process_over(struct box_session *session)
{
    if (!session->death.over) {
        process_lose_branches(session);
        calls_close(session);
        session->death.end = process_outcome(session);
        session->death.over = true;
    }
    /* The dead process's output belongs to the call; the rest of a frame is dropped. */
    box_session_drain(session);
    process_discard(session);
    if (!session->control.io.loop) {
        (void)process_listen(session);
    }
    checkpoint_wake(session);
}

static void process_swept(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    struct fail fail = {};
    if (reply->error == 0) {
        if (!session->death.over) {
            session->death.end.processes = reply->processes;
            (void)snprintf(session->death.end.names, BOX_NAMES_BYTES, "%.*s", BOX_NAMES_BYTES - 1,
                           reply->path);
        }
        process_step(session, PROCESS_SWEPT);
    } else if (reply->error != ECONNRESET) { /* ECONNRESET: the sandbox dies, with its sessions */
        (void)fail_set(&fail, reply->error, "a session's processes could not be killed");
        box_broken(session->box, &fail);
    }
}

static void process_slow(void *arg)
{
    struct box_session *session = arg;
    const struct box_end end = process_outcome(session);
    process_wait_slowly(session);
    session->events->on_slow(session->arg, &end);
}

void process_wait_slowly(struct box_session *session)
{
    loop_timer_in(session->box->loop, &session->timer, SESSION_SLOW_MS, process_slow, session);
}

static void process_sweep(struct box_session *session)
{
    process_wait_slowly(session);
    struct wire_request request = {
        .op = WIRE_KILL_TAG, .tag = session->tag, .last_tag = session->box->sessions.last_tag};
    for (const struct box_session *other = session->box->sessions.list;
         other && request.tag_count < WIRE_TAGS; other = other->next) {
        if (other != session) {
            request.tags[request.tag_count++] = other->tag;
        }
    }
    int r = box_ask(session->box, &request, process_swept, session);
    if (r < 0) {
        process_swept(session, &(struct wire_reply){.error = -r}, NULL);
    }
}

static void process_take_rest(struct box_session *session)
{
    process_read_last(session);
    process_step(session, PROCESS_KILL);
}

void process_step(struct box_session *session, enum process_event event)
{
    enum process_state before = session->state;
    enum process_state after = next_state[before][event];
    if (after == PROCESS_QUEUED) {
        return;
    }
    session->state = after;
    if (after == PROCESS_READY) {
        loop_timer_disarm(&session->timer);
    } else if (after == PROCESS_EXITED) {
        process_take_rest(session);
    } else if (after == PROCESS_WAKING) {
        process_over(session);
    } else if ((before < PROCESS_KILLING || before == PROCESS_WAKING) && after >= PROCESS_KILLING) {
        process_sweep(session);
    }
}

void process_stop(struct box_session *session, enum process_event event, enum box_end_kind cause)
{
    if (session->state < PROCESS_KILLING) {
        process_condemn(session, cause);
    }
    process_step(session, event);
}

struct box_session *process_by_pid(struct box *box, pid_t pid)
{
    struct box_session *session = box->sessions.list;
    while (session && session->pid != pid) {
        session = session->next;
    }
    return session;
}

bool process_exited(struct box *box, pid_t pid, int status)
{
    struct box_session *session = pid > 0 ? process_by_pid(box, pid) : NULL;
    if (!session) {
        return pid > 0 && checkpoint_exited(box, pid);
    }
    session->death.status = status;
    process_step(session, PROCESS_EXIT);
    return true;
}

void process_memory_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_session *session = process_by_pid(box, reply->pid);
    struct box_end *end = session && !session->death.over ? &session->death.end : NULL;
    box->memory_killed = box->memory_killed || !session;
    if (end && end->kind != BOX_END_DISK && reply->memory_bytes > 0) {
        end->kind = BOX_END_OOM;
        end->used_bytes = reply->memory_bytes;
        end->limit_bytes = box->spec->limits.memory_bytes;
        end->blame = reply->blame <= BOX_BLAME_UNKNOWN ? (enum box_blame)reply->blame : 0;
    }
}

void process_disk_killed(struct box *box, const struct wire_reply *reply)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        struct box_end *end = &session->death.end;
        if ((reply->pid == 0 || session->pid == reply->pid) && !session->death.over) {
            end->kind = BOX_END_DISK;
            end->used_bytes = reply->disk_bytes ? reply->disk_bytes : 1;
            end->limit_bytes = reply->disk_most_bytes;
            end->used_files = reply->disk_files;
            end->limit_files = box->spec->limits.disk_inodes;
        }
    }
    if (reply->pid == 0) {
        box->handlers->give_up(box);
    }
}

void session_end_all(struct box *box)
{
    while (box->sessions.list) {
        struct box_session *session = box->sessions.list;
        if (!session->death.over && session->state < PROCESS_EXITED) {
            process_condemn(session, BOX_END_KILLED);
        }
        process_finish(session);
    }
}

void box_session_kill(struct box_session *session)
{
    process_stop(session, PROCESS_KILL, BOX_END_KILLED);
}

/* The session may be gone by this time. */
static void process_cell_ended(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = process_by_pid(arg, reply->pid);
    if (reply->error != ECONNRESET && session && session->state == PROCESS_READY) {
        session->events->on_cell_ended(session->arg, reply->processes, reply->path);
    }
}

int box_session_end_cell(struct box_session *session, unsigned cell)
{
    struct wire_request request = {
        .op = WIRE_KILL_TAG, .pid = session->pid, .tag = session->tag, .cell = cell};
    return session->state == PROCESS_READY
               ? box_ask(session->box, &request, process_cell_ended, session->box)
               : -EPIPE;
}

void box_session_close(struct box_session *session)
{
    checkpoints_kill(session); /* so no checkpoint replaces the interpreter */
    if (session->state == PROCESS_WAKING) {
        process_gone(session);
    } else {
        box_session_kill(session);
    }
}

void process_lose(struct box_session *session)
{
    if (session->state == PROCESS_WAKING) {
        checkpoint_wake_failed(session);
    } else if (session->state != PROCESS_EXITED) {
        process_stop(session, PROCESS_KILL, BOX_END_LOST);
    }
}
