/* One interpreter, as the server sees it: a control socket, two pipes, and a checkpoint.
 *
 *   STARTING ──hello──► READY ──exit, kill, broken channel──► ENDING ──all gone──┬──► (freed)
 *                         ▲                                                       │
 *                         └────────────resumed──── WAKING ◄──a checkpoint sleeps──┘
 *
 * After each result the interpreter forks a copy that sleeps and shares its sockets: the checkpoint.
 * In ENDING pid 1 is asked to kill everything with the session's tag but the checkpoint: what the
 * interpreter has started does not outlive it. When both have happened, the interpreter's own exit
 * (with its status) and the answer that nothing else is left, nobody can write to the socket or the
 * pipes any more; what is left in them is taken or dropped, and the checkpoint is woken. It is the
 * session from then on. Without one, the end is told. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/parse.h"
#include "sandbox/session/session.h"
#include "sandbox/wire/channel.h"

static void session_sweep(struct box_session *session);
static void session_messages(struct box_session *session);

bool session_message_number(const struct box_message *message, const char *name,
                            uint64_t *ret_value)
{
    struct box_field field;
    char text[24] = "";
    if (!box_message_get(message, name, &field) || field.size >= sizeof text) {
        return false;
    }
    memcpy(text, field.data, field.size);
    return parse_u64(text, ret_value) == 0;
}

int session_watch(struct box_session *session, link_fn fn)
{
    struct wire_request request = {
        .op = WIRE_WATCH, .pid = session->pid, .tag = session->tag, .role = WIRE_ROLE_SESSION};
    return link_send(session->box, &request, fn, session);
}

/* Reads what is there now. Returns false at the socket's end. */
static bool session_read(struct box_session *session)
{
    for (;;) {
        char *space = NULL;
        if (buf_reserve(&session->in, SESSION_READ, &space) < 0) {
            return false;
        }
        ssize_t size = recv(session->fd, space, SESSION_READ, MSG_DONTWAIT);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return size < 0 && errno == EAGAIN;
        }
        buf_commit(&session->in, (size_t)size);
        if (size < SESSION_READ || buf_size(&session->in) > LIMIT_FRAME_IN_BYTES) {
            return true; /* the rest keeps the socket ready */
        }
    }
}

/* Drops what is there. Nobody writes to the socket any more. */
static void session_discard(struct box_session *session)
{
    static char nowhere[SESSION_READ];
    while (recv(session->fd, nowhere, sizeof nowhere, MSG_DONTWAIT) > 0) {
    }
    buf_clear(&session->in, SESSION_READ);
    buf_clear(&session->out, SESSION_READ);
}

/* --- the end --- */

static struct box_end session_outcome(struct box_session *session)
{
    const struct box_limits *limits = &session->box->spec->limits;
    struct box_end end = {.limit_bytes = limits->memory_bytes};
    bool by_signal = session->exited && WIFSIGNALED(session->status);
    if (session->disk_bytes > 0) {
        end.kind = BOX_END_DISK;
        end.used_bytes = session->disk_bytes;
        end.limit_bytes = session->disk_most_bytes;
        end.used_files = session->disk_files;
        end.limit_files = limits->disk_inodes;
    } else if (session->memory_bytes > 0) {
        end.kind = BOX_END_OOM;
        end.used_bytes = session->memory_bytes;
        session->box->memory_killed = false;
    } else if (by_signal && WTERMSIG(session->status) == SIGKILL && !session->killed &&
               cgroup_oom_happened(&session->box->cgroup)) {
        end.kind = BOX_END_OOM;
        if (cgroup_has(&session->box->cgroup, CGROUP_MEMORY)) {
            uint64_t peak = cgroup_memory_peak(&session->box->cgroup);
            end.used_bytes = peak ? peak : limits->memory_bytes;
        } else {
            end.limit_bytes = session->box->spec->memory_around;
        }
    } else if (session->killed) {
        end.kind = session->refused ? BOX_END_REFUSED
                   : session->lost  ? BOX_END_LOST
                                    : BOX_END_KILLED;
    } else if (by_signal) {
        end.kind = BOX_END_SIGNAL;
        end.code = WTERMSIG(session->status);
    } else if (session->exited) {
        end.kind = BOX_END_EXIT;
        end.code = WEXITSTATUS(session->status);
    } else {
        end.kind = BOX_END_LOST;
    }
    return end;
}

/* Unlinks, tells and frees. */
static void session_finish(struct box_session *session, const struct box_end *end)
{
    for (struct box_session **at = &session->box->sessions; *at; at = &(*at)->next) {
        if (*at == session) {
            *at = session->next;
            break;
        }
    }
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->io);
    box_session_drain(session);
    session_output_close(session);
    session->events->on_end(session->arg, end);
    session_free(session);
}

void session_signal_pid(struct box_session *session, pid_t pid, int signal)
{
    struct wire_request request = {.op = WIRE_SIGNAL, .pid = pid, .signal = signal};
    (void)link_send(session->box, &request, NULL, NULL);
}

void session_gone(struct box_session *session)
{
    session_checkpoints_kill(session);
    session_finish(session, &session->end);
}

/* What is written from here on is of what comes now. The guest writes through the same file description,
 * so its offset goes back with ours. */
static void session_forget_trace(struct box_session *session)
{
    (void)ftruncate(session->trace_fd, 0);
    (void)lseek(session->trace_fd, 0, SEEK_SET);
}

/* The interpreter and all that it started are gone. */
static void session_over(struct box_session *session)
{
    session->end = session_outcome(session);
    if (session->closing) {
        session_gone(session);
        return;
    }
    /* What the dead one left: output belongs to the call, the rest of a frame to nobody. */
    box_session_drain(session);
    session_discard(session);
    if (!session->io.loop) {
        (void)loop_io_add(session->box->loop, &session->io, session->fd, EPOLLIN, session_on_io,
                          session);
    }
    session->state = SESSION_WAKING;
    session_checkpoint_wake(session);
}

static void session_swept(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error == ECONNRESET) {
        return; /* the box ends; so does the session, there */
    }
    if (reply->error) {
        struct fail fail = {};
        (void)fail_set(&fail, reply->error, "the processes of a session could not be ended");
        box_broken(session->box, &fail);
        return;
    }
    session->swept = true;
    if (session->exited || session->pid == 0) {
        session_over(session);
    }
}

static void session_slow(void *arg)
{
    struct box_session *session = arg;
    struct box_end end = session->state == SESSION_WAKING ? session->end : session_outcome(session);
    session_wait_slowly(session);
    session->events->on_slow(session->arg, &end);
}

void session_wait_slowly(struct box_session *session)
{
    loop_timer_arm(session->box->loop, &session->timer,
                   clock_now_ns() + SESSION_SLOW_MS * CLOCK_NS_PER_MS, session_slow, session);
}

static void session_sweep(struct box_session *session)
{
    if (session->state == SESSION_ENDING) {
        return;
    }
    session->state = SESSION_ENDING;
    session_wait_slowly(session);
    struct wire_request request = {
        .op = WIRE_KILL_TAG, .tag = session->tag, .last_tag = session->box->last_tag};
    for (const struct box_session *other = session->box->sessions;
         other && request.tag_count < WIRE_TAGS; other = other->next) {
        if (other != session) {
            request.tags[request.tag_count++] = other->tag;
        }
    }
    int r = link_send(session->box, &request, session_swept, session);
    if (r < 0 && r != -ECONNRESET) {
        struct fail fail = {};
        (void)fail_set(&fail, -r, "the processes of a session cannot be ended");
        box_broken(session->box, &fail);
    }
}

static struct box_session *session_by_pid(struct box *box, pid_t pid)
{
    struct box_session *session = box->sessions;
    while (session && session->pid != pid) {
        session = session->next;
    }
    return session;
}

bool session_process_exited(struct box *box, pid_t pid, int status)
{
    struct box_session *session = pid > 0 ? session_by_pid(box, pid) : NULL;
    if (!session) {
        return pid > 0 && session_checkpoint_exited(box, pid);
    }
    session->exited = true;
    session->status = status;
    if (session->swept) {
        session_over(session);
    } else {
        /* Its last words first: a result, or a new checkpoint, may lie in the socket. */
        (void)session_read(session);
        session_messages(session);
        session_sweep(session);
    }
    return true;
}

void session_memory_killed(struct box *box, pid_t pid, uint64_t used_bytes)
{
    struct box_session *session = session_by_pid(box, pid);
    if (session) {
        session->memory_bytes = used_bytes;
    } else {
        box->memory_killed = true;
    }
}

static void session_set_disk(struct box_session *session, const struct wire_reply *reply)
{
    session->disk_bytes = reply->disk_bytes ? reply->disk_bytes : 1;
    session->disk_most_bytes = reply->disk_most_bytes;
    session->disk_files = reply->disk_files;
}

void session_disk_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_session *session = reply->pid ? session_by_pid(box, reply->pid) : NULL;
    if (session) {
        session_set_disk(session, reply);
    }
    if (reply->pid) {
        return;
    }
    for (session = box->sessions; session; session = session->next) {
        session_set_disk(session, reply);
    }
    box_kill(box);
}

/* The zygote died, and with it the forks that it was asked for. */
void session_zygote_died(struct box *box)
{
    for (struct box_session *session = box->sessions; session; session = session->next) {
        if (session->state == SESSION_STARTING && session->fd >= 0) {
            session_lose(session);
        }
    }
}

void session_end_all(struct box *box)
{
    while (box->sessions) {
        struct box_session *session = box->sessions;
        struct box_end end = session->end;
        if (session->state != SESSION_WAKING) {
            session->killed = session->killed || !session->exited;
            end = session_outcome(session);
        }
        session_finish(session, &end);
    }
}

void box_session_kill(struct box_session *session)
{
    if (session->state == SESSION_STARTING || session->state == SESSION_READY) {
        session->killed = true;
        session_sweep(session);
    }
}

void box_session_close(struct box_session *session)
{
    session->closing = true;
    if (session->state == SESSION_WAKING) {
        session_gone(session);
    } else {
        box_session_kill(session);
    }
}

void session_lose(struct box_session *session)
{
    if (session->state == SESSION_WAKING) {
        session_checkpoint_wake_failed(session);
    } else if (session->state != SESSION_ENDING && !session->exited) {
        session->lost = true;
        box_session_kill(session);
    }
}

static void session_closed(void *arg)
{
    session_lose(arg);
}

static void session_signal(struct box_session *session, int signal)
{
    if (session->state == SESSION_READY && !session->exited) {
        session_signal_pid(session, session->pid, signal);
    }
}

void box_session_interrupt(struct box_session *session)
{
    session_forget_trace(session);
    session_signal(session, SIGINT);
}

void box_session_trace(struct box_session *session)
{
    session_signal(session, SIGUSR1);
}

bool box_session_trace_at_work(struct box_session *session)
{
    if (session->state != SESSION_READY || session->exited) {
        return false;
    }
    struct wire_request request = {.op = WIRE_TRACE, .pid = session->pid};
    session_forget_trace(session);
    return link_send(session->box, &request, NULL, NULL) == 0;
}

size_t box_session_traced(const struct box_session *session, char *text, size_t size)
{
    ssize_t length = pread(session->trace_fd, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* --- the control socket --- */

/* Only a watched process gets code: the end of another one would pass unseen. */
static void session_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error == ECONNRESET) {
        return; /* the box ends; so does the session, there */
    }
    if (reply->error) {
        session->pid = 0;
        session_lose(session);
    } else if (session->state == SESSION_STARTING) {
        session->state = SESSION_READY;
        loop_timer_disarm(&session->timer);
        session->events->on_ready(session->arg);
    }
}

/* The first message, said before any code has run. */
static void session_hello(struct box_session *session, const struct box_message *message)
{
    struct box_field refused;
    uint64_t pid = 0;
    session->refused = box_message_get(message, "refused", &refused);
    if (session->refused || !session_message_number(message, "pid", &pid) || pid < 2 ||
        pid > INT32_MAX) {
        session_lose(session);
        return;
    }
    session->pid = (pid_t)pid;
    if (session_watch(session, session_watched) < 0) {
        session_lose(session);
    }
}

static void session_message(struct box_session *session, const struct box_message *message)
{
    const struct box_field *verb = &message->fields[0];
    if (session->state == SESSION_STARTING) {
        if (box_field_is(verb, "hello")) {
            session_hello(session, message);
        }
    } else if (session->state == SESSION_WAKING) {
        if (box_field_is(verb, "resumed")) {
            session_checkpoint_resumed(session, message);
        }
    } else if (box_field_is(verb, "checkpoint")) {
        /* What code adds of its own would only be work for pid 1, whose queue all sessions share. */
        if (session->due > 0) {
            session->due--;
            session_checkpoint_made(session, message);
        }
    } else {
        session->events->on_message(session->arg, message);
    }
}

static void session_messages(struct box_session *session)
{
    static struct box_field fields[LIMIT_FRAME_FIELDS];
    size_t count = 0;
    size_t used = 0;
    while (session->state != SESSION_ENDING) {
        enum channel_result result =
            channel_next(&session->in, fields, LIMIT_FRAME_FIELDS, &count, &used);
        if (result == CHANNEL_NONE) {
            return;
        }
        if (result == CHANNEL_BROKEN) {
            session_lose(session);
            return;
        }
        struct box_message message = {fields, count};
        session_message(session, &message);
        buf_consume(&session->in, used);
    }
}

/* As much as fits, but not more than one turn of the loop may take: the guest reads while we write. */
static int session_flush(struct box_session *session)
{
    size_t left = SESSION_WRITE;
    while (buf_size(&session->out) > 0 && left > 0) {
        size_t part = buf_size(&session->out) < left ? buf_size(&session->out) : left;
        ssize_t size =
            send(session->fd, buf_bytes(&session->out), part, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                return -errno;
            }
            break;
        }
        buf_consume(&session->out, (size_t)size);
        left -= (size_t)size;
    }
    bool waiting = buf_size(&session->out) > 0;
    if (!waiting) {
        buf_clear(&session->out, SESSION_READ);
    }
    return session->io.loop
               ? loop_io_set(&session->io, waiting ? (uint32_t)(EPOLLIN | EPOLLOUT) : EPOLLIN)
               : 0;
}

void session_on_io(void *arg, uint32_t events)
{
    struct box_session *session = arg;
    if (events & EPOLLOUT) {
        (void)session_flush(session);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        return;
    }
    if (!session_read(session)) {
        /* Closed: with the process's end, which pid 1 is about to report, or by the guest's own
         * code, which then is of no more use. */
        loop_io_remove(&session->io);
        if (session->state == SESSION_STARTING || session->state == SESSION_READY) {
            loop_timer_arm(session->box->loop, &session->timer,
                           clock_now_ns() + SESSION_CLOSED_MS * CLOCK_NS_PER_MS, session_closed,
                           session);
        }
    }
    session_messages(session);
}

int box_session_send(struct box_session *session, const struct box_field *fields, size_t count)
{
    if (session->state != SESSION_READY || session->exited) {
        return -EPIPE;
    }
    session_forget_trace(session);
    int r = channel_encode(&session->out, fields, count);
    if (r < 0) {
        return r;
    }
    session->due++;
    return session_flush(session);
}
