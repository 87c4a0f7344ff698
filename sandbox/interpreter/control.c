/* The control socket of an interpreter, and signals that keep their place among its messages. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/protocol/frames.h"

pid_t session_message_pid(const struct box_message *message, const char *name)
{
    uint64_t pid = box_message_number(message, name, 0);
    return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* Reads available data. Returns 0; -EPIPE at the socket's end; -ENOMEM. */
static int session_read(struct box_session *session)
{
    for (;;) {
        char *space = NULL;
        if (buf_reserve(&session->in, SESSION_READ, &space) < 0) {
            return -ENOMEM;
        }
        ssize_t size = recv(session->fd, space, SESSION_READ, MSG_DONTWAIT);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return size < 0 && errno == EAGAIN ? 0 : -EPIPE;
        }
        buf_commit(&session->in, (size_t)size);
        if (size < SESSION_READ || buf_size(&session->in) > LIMIT_FRAME_IN_BYTES) {
            return 0; /* epoll reports the rest */
        }
    }
}

void session_discard(struct box_session *session)
{
    static char nowhere[SESSION_READ];
    while (recv(session->fd, nowhere, sizeof nowhere, MSG_DONTWAIT) > 0) {
    }
    buf_clear(&session->in, SESSION_READ);
    buf_clear(&session->out, SESSION_READ);
}

/* Whatever is written after this belongs to the next cell. The guest writes through the same file
 * description, so its offset is reset with ours. */
static void session_forget_trace(struct box_session *session)
{
    (void)ftruncate(session->trace_fd, 0);
    (void)lseek(session->trace_fd, 0, SEEK_SET);
}

int session_flush(struct box_session *session)
{
    size_t left = session->calls.due ? 0 : SESSION_WRITE;
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
    bool waiting = buf_size(&session->out) > 0 && !session->calls.due;
    if (buf_size(&session->out) == 0) {
        buf_clear(&session->out, SESSION_READ);
    }
    return session->io.loop
               ? loop_io_set(&session->io, waiting ? (uint32_t)(EPOLLIN | EPOLLOUT) : EPOLLIN)
               : 0;
}

/* Init has sent the signal, so it comes before anything that the process reads from now on. */
static void session_signalled(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    session->signals--;
    if (session->signals == 0 && reply->error != ECONNRESET) {
        (void)session_flush(session);
    }
}

static void session_signal(struct box_session *session, int signal)
{
    struct wire_request request = {
        .op = WIRE_SIGNAL, .pid = session->pid, .tag = session->tag, .signal = signal};
    if (session->state == PROCESS_READY &&
        box_ask(session->box, &request, session_signalled, session) == 0) {
        session->signals++;
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
    if (session->state != PROCESS_READY) {
        return false;
    }
    struct wire_request request = {.op = WIRE_TRACE, .pid = session->pid};
    session_forget_trace(session);
    return box_ask(session->box, &request, NULL, NULL) == 0;
}

size_t box_session_traced(const struct box_session *session, char *text, size_t size)
{
    ssize_t length = pread(session->trace_fd, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Only a watched process gets code: another one's exit would go unnoticed. Init watches one that
 * was a checkpoint already, so code may run in it meanwhile. */
static void session_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error == ECONNRESET || reply->pid != session->pid) {
        return; /* the sandbox dies, and ends the session; or another process has become it */
    }
    if (reply->error) {
        session->pid = 0;
        session_stop(session, PROCESS_UNKNOWN, BOX_END_LOST);
    } else if (session->state == PROCESS_WATCHING) {
        process_step(session, PROCESS_WATCHED);
        session->events->on_ready(session->arg);
    }
}

int session_watch(struct box_session *session)
{
    struct wire_request request = {
        .op = WIRE_WATCH, .pid = session->pid, .tag = session->tag, .role = WIRE_ROLE_SESSION};
    return box_ask(session->box, &request, session_watched, session);
}

/* The first message, sent before any code has run: but code of its session may have taken the
 * socket of a branch. */
static void session_hello(struct box_session *session, const struct box_message *message)
{
    struct box_field refused;
    pid_t pid = session_message_pid(message, "pid");
    session->pid = session_by_pid(session->box, pid) ? 0 : pid; /* code can forge it for a branch */
    session->parent = NULL;
    if (box_message_get(message, "refused", &refused)) { /* its own Landlock domain */
        session_stop(session, PROCESS_KILL, BOX_END_REFUSED);
    } else if (session->pid == 0 || session_watch(session) < 0) {
        session_lose(session);
    } else {
        process_step(session, PROCESS_HELLO);
    }
}

static void session_message(struct box_session *session, const struct box_message *message)
{
    const struct box_field *verb = &message->fields[0];
    bool is_received = session->state == PROCESS_READY || session->state == PROCESS_EXITED;
    if (session->state == PROCESS_FORKING && box_field_is(verb, "hello")) {
        session_hello(session, message);
    } else if (session->state == PROCESS_WAKING && box_field_is(verb, "resumed") &&
               session_message_pid(message, "pid") == session->waking->pid) {
        session_checkpoint_resumed(session, message); /* and no checkpoint that was given up */
    } else if (is_received && box_field_is(verb, "checkpoint")) {
        /* A checkpoint that code reports by itself is ignored: it would only cost time of init,
         * which all sessions share. */
        if (session->awaited > 0 && box_message_number(message, "cell", 0) == session->awaited) {
            session->awaited = 0;
            session_checkpoint_made(session, message);
        }
    } else if (is_received) {
        session->events->on_message(session->arg, message);
    }
}

static void session_messages(struct box_session *session)
{
    static struct box_field fields[LIMIT_FRAME_FIELDS];
    size_t count = 0;
    size_t used = 0;
    while (session->state < PROCESS_KILLING || session->state == PROCESS_WAKING) {
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

void session_read_last(struct box_session *session)
{
    (void)session_read(session);
    session_messages(session);
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
    int r = session_read(session);
    if (r < 0) {
        loop_io_remove(&session->io);
    }
    session_messages(session);
    /* At the socket's end the process has exited, and init is about to report it; or code has
     * closed the socket, and the process exits when it cannot send the result. Init knows no
     * process that has not sent hello. */
    if (r == -ENOMEM || (r < 0 && session->state == PROCESS_FORKING)) {
        session_lose(session);
    }
}

int box_session_send(struct box_session *session, const struct box_field *fields, size_t count)
{
    if (session->state != PROCESS_READY) {
        return -EPIPE;
    }
    session_forget_trace(session);
    session_calls_prepare(session);
    int r = channel_encode(&session->out, fields, count);
    if (r < 0) {
        return r;
    }
    /* A signal that is still on its way belongs to an earlier message. */
    r = session->signals > 0 ? 0 : session_flush(session);
    if (r < 0) {
        process_step(session, PROCESS_KILL); /* its exit status is its own if it has exited */
    }
    return r < 0 ? -EPIPE : 0;
}
