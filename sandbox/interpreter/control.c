/* The connections of an interpreter: its control socket, with signals that keep their place among
 * its messages; the socket on which its code calls tools; and the pipes of its output. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"

pid_t process_message_pid(const struct box_message *message, const char *name)
{
    uint64_t pid = box_message_number(message, name, 0);
    return pid > 1 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* Reads available data until more than most bytes wait. Has no space for descriptors, which the
 * kernel therefore closes, unix(7). Returns 0; -EPIPE at the socket's end; -ENOMEM. */
static int connection_read(struct connection *connection, size_t most)
{
    for (;;) {
        char *space = NULL;
        if (buf_reserve(&connection->in, SESSION_READ, &space) < 0) {
            return -ENOMEM;
        }
        ssize_t size = TEMP_FAILURE_RETRY(recv(connection->fd, space, SESSION_READ, MSG_DONTWAIT));
        if (size <= 0) {
            return size < 0 && errno == EAGAIN ? 0 : -EPIPE;
        }
        buf_commit(&connection->in, (size_t)size);
        if (size < SESSION_READ || buf_size(&connection->in) > most) {
            return 0; /* epoll reports the rest */
        }
    }
}

/* Writes as much as fits, at most so many bytes. 0 or -errno. */
static int connection_write(struct connection *connection, size_t most)
{
    struct buf *out = &connection->out;
    while (buf_size(out) > 0 && most > 0) {
        size_t part = buf_size(out) < most ? buf_size(out) : most;
        ssize_t size = TEMP_FAILURE_RETRY(
            send(connection->fd, buf_bytes(out), part, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (size < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        buf_consume(out, (size_t)size);
        most -= (size_t)size;
    }
    if (buf_size(out) == 0) {
        buf_clear(out, SESSION_READ);
    }
    return 0;
}

void connection_close(struct connection *connection)
{
    loop_io_remove(&connection->io);
    drop_fd(&connection->fd);
    buf_done(&connection->in);
    buf_done(&connection->out);
}

/* --- the control socket --- */

void process_discard(struct box_session *session)
{
    static char nowhere[SESSION_READ];
    while (recv(session->control.fd, nowhere, sizeof nowhere, MSG_DONTWAIT) > 0) {
    }
    buf_clear(&session->control.in, SESSION_READ);
    buf_clear(&session->control.out, SESSION_READ);
}

/* Whatever is written after this belongs to the next cell. The guest writes through the same file
 * description, so its offset is reset with ours. */
static void process_forget_trace(struct box_session *session)
{
    (void)ftruncate(session->trace_fd, 0);
    (void)lseek(session->trace_fd, 0, SEEK_SET);
}

/* Writes as much as fits, within the limit for one turn of the loop: the guest reads meanwhile. 0
 * or -errno. */
static int process_flush(struct box_session *session)
{
    struct connection *control = &session->control;
    int r = session->calls_due ? 0 : connection_write(control, SESSION_WRITE);
    bool waiting = buf_size(&control->out) > 0 && !session->calls_due;
    return r < 0 || !control->io.loop
               ? r
               : loop_io_set(&control->io, waiting ? (uint32_t)(EPOLLIN | EPOLLOUT) : EPOLLIN);
}

/* Init has sent the signal, so it comes before anything that the process reads from now on. */
static void process_signalled(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    session->signals--;
    if (session->signals == 0 && reply->error != ECONNRESET) {
        (void)process_flush(session);
    }
}

static void process_signal(struct box_session *session, int signal)
{
    if (session->state == PROCESS_READY &&
        process_signal_pid(session, session->pid, signal, process_signalled, session) == 0) {
        session->signals++;
    }
}

void box_session_interrupt(struct box_session *session)
{
    process_forget_trace(session);
    process_signal(session, SIGINT);
}

void box_session_trace(struct box_session *session)
{
    process_signal(session, SIGUSR1);
}

bool box_session_trace_at_work(struct box_session *session)
{
    if (session->state != PROCESS_READY) {
        return false;
    }
    struct wire_request request = {.op = WIRE_TRACE, .pid = session->pid};
    process_forget_trace(session);
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
static void process_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error == ECONNRESET || reply->pid != session->pid) {
        return; /* the sandbox dies, and ends the session; or another process has become it */
    }
    if (reply->error) {
        session->pid = 0;
        process_stop(session, PROCESS_UNKNOWN, BOX_END_LOST);
    } else if (session->state == PROCESS_WATCHING) {
        process_step(session, PROCESS_WATCHED);
        session->events->on_ready(session->arg);
    }
}

int process_watch(struct box_session *session)
{
    struct wire_request request = {
        .op = WIRE_WATCH, .pid = session->pid, .tag = session->tag, .role = WIRE_ROLE_SESSION};
    return box_ask(session->box, &request, process_watched, session);
}

/* The first message, sent before any code has run: but code of its session may have taken the
 * socket of a branch. */
static void process_hello(struct box_session *session, const struct box_message *message)
{
    struct box_field refused;
    pid_t pid = process_message_pid(message, "pid");
    session->pid = process_by_pid(session->box, pid) ? 0 : pid; /* code can forge it for a branch */
    session->parent = NULL;
    if (box_message_get(message, "refused", &refused)) { /* its own Landlock domain */
        process_stop(session, PROCESS_KILL, BOX_END_REFUSED);
    } else if (session->pid == 0 || process_watch(session) < 0) {
        process_lose(session);
    } else {
        process_step(session, PROCESS_HELLO);
    }
}

static void process_message(struct box_session *session, const struct box_message *message)
{
    const struct box_field *verb = &message->fields[0];
    bool is_received = session->state == PROCESS_READY || session->state == PROCESS_EXITED;
    if (session->state == PROCESS_FORKING && box_field_is(verb, "hello")) {
        process_hello(session, message);
    } else if (session->state == PROCESS_WAKING && box_field_is(verb, "resumed") &&
               process_message_pid(message, "pid") == session->waking->pid) {
        checkpoint_resumed(session, message); /* and no checkpoint that was given up */
    } else if (is_received && box_field_is(verb, "checkpoint")) {
        /* A checkpoint that code reports by itself is ignored: it would only cost time of init,
         * which all sessions share. */
        if (session->awaited > 0 && box_message_number(message, "cell", 0) == session->awaited) {
            session->awaited = 0;
            checkpoint_made(session, message);
        }
    } else if (is_received) {
        session->events->on_message(session->arg, message);
    }
}

static void process_messages(struct box_session *session)
{
    static struct box_field fields[LIMIT_FRAME_FIELDS];
    size_t count = 0;
    size_t used = 0;
    while (session->state < PROCESS_KILLING || session->state == PROCESS_WAKING) {
        enum channel_result result =
            channel_next(&session->control.in, fields, LIMIT_FRAME_FIELDS, &count, &used);
        if (result == CHANNEL_NONE) {
            return;
        }
        if (result == CHANNEL_BROKEN) {
            process_lose(session);
            return;
        }
        struct box_message message = {fields, count};
        process_message(session, &message);
        buf_consume(&session->control.in, used);
    }
}

void process_read_last(struct box_session *session)
{
    (void)connection_read(&session->control, LIMIT_FRAME_IN_BYTES);
    process_messages(session);
}

static void process_on_io(void *arg, uint32_t events)
{
    struct box_session *session = arg;
    if (events & EPOLLOUT) {
        (void)process_flush(session);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        return;
    }
    int r = connection_read(&session->control, LIMIT_FRAME_IN_BYTES);
    if (r < 0) {
        loop_io_remove(&session->control.io);
    }
    process_messages(session);
    /* At the socket's end the process has exited, and init is about to report it; or code has
     * closed the socket, and the process exits when it cannot send the result. Init knows no
     * process that has not sent hello. */
    if (r == -ENOMEM || (r < 0 && session->state == PROCESS_FORKING)) {
        process_lose(session);
    }
}

int process_listen(struct box_session *session)
{
    return loop_io_add(session->box->loop, &session->control.io, session->control.fd, EPOLLIN,
                       process_on_io, session);
}

/* --- the socket on which code calls tools of other servers ---
 *
 * One for each interpreter, which gets it with its first message. Apart from the control socket, so
 * that what code writes here can disturb nothing else. */

void calls_close(struct box_session *session)
{
    connection_close(&session->calls);
    session->calls_due = false;
}

/* While the guest reads nothing, neither does the server. */
static void calls_flush(struct box_session *session)
{
    struct connection *calls = &session->calls;
    (void)connection_write(calls, SIZE_MAX); /* the end of a closed one is reported as it is read */
    size_t left = buf_size(&calls->out);
    if (calls->io.loop) {
        (void)loop_io_set(&calls->io, (left > 0 ? (uint32_t)EPOLLOUT : 0U) |
                                          (left < LIMIT_FRAME_IN_BYTES ? (uint32_t)EPOLLIN : 0U));
    }
}

static void calls_break(struct box_session *session)
{
    log_info("sandbox", "code has broken the socket for calls of tools");
    calls_close(session);
}

static void calls_read(struct box_session *session)
{
    enum { FIELDS = 16 };
    struct connection *calls = &session->calls;
    struct box_field fields[FIELDS];
    size_t count = 0;
    size_t used = 0;
    int r = connection_read(calls, /* most= */ 0); /* the others have their turn */
    enum channel_result result = CHANNEL_MESSAGE;
    while (r != -ENOMEM &&
           (result = channel_next(&calls->in, fields, FIELDS, &count, &used)) == CHANNEL_MESSAGE) {
        session->events->on_call(session->arg, &(struct box_message){fields, count});
        if (calls->fd < 0) {
            return;
        }
        buf_consume(&calls->in, used);
    }
    if (r == -ENOMEM || result == CHANNEL_BROKEN) {
        calls_break(session);
    } else if (r < 0) {
        calls_close(session);
    }
}

static void calls_on_io(void *arg, uint32_t events)
{
    struct box_session *session = arg;
    if (events & EPOLLOUT) {
        calls_flush(session);
    }
    if (session->calls.fd >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        calls_read(session);
    }
}

/* Sends the guest's end in front of the messages that wait. */
static void calls_connect(struct box_session *session)
{
    static const struct box_field fields[] = {{"calls", 5}};
    struct connection *calls = &session->calls;
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    calls->fd = take_fd(&session->box->sessions.pair[0]);
    defer_close int theirs = take_fd(&session->box->sessions.pair[1]);
    process_want_pair(session->box);
    session->calls_due = false;
    int r = channel_encode(&frame, fields, 1);
    ssize_t sent = r ? r
                     : packet_send(session->control.fd, buf_bytes(&frame), buf_size(&frame),
                                   &theirs, 1, MSG_DONTWAIT);
    if (sent != (ssize_t)buf_size(&frame) ||
        loop_io_add(session->box->loop, &calls->io, calls->fd, EPOLLIN, calls_on_io, session) < 0) {
        calls_break(session);
    }
}

/* Before a message: makes sure that the interpreter has such a socket, where the spec has them. */
static void calls_prepare(struct box_session *session)
{
    if (!session->box->spec->calls || session->raw || session->calls.fd >= 0 ||
        session->calls_due || buf_size(&session->control.out) > 0) {
        return;
    }
    if (session->box->sessions.pair[0] >= 0) {
        calls_connect(session);
    } else {
        session->calls_due = true;
        process_want_pair(session->box);
    }
}

void calls_pair_made(struct box *box, bool failed)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        if (session->calls_due && (failed || box->sessions.pair[0] >= 0)) {
            session->calls_due = false;
            if (!failed) {
                calls_connect(session);
            }
            (void)process_flush(session);
        }
    }
}

int box_session_reply(struct box_session *session, const struct box_field *fields, size_t count)
{
    if (session->calls.fd < 0) {
        return -EPIPE;
    }
    int r = channel_encode(&session->calls.out, fields, count);
    if (r == 0) {
        calls_flush(session);
    }
    return r;
}

size_t box_session_unread(const struct box_session *session)
{
    return buf_size(&session->calls.out);
}

int box_session_send(struct box_session *session, const struct box_field *fields, size_t count)
{
    if (session->state != PROCESS_READY) {
        return -EPIPE;
    }
    process_forget_trace(session);
    calls_prepare(session);
    int r = channel_encode(&session->control.out, fields, count);
    if (r < 0) {
        return r;
    }
    /* A signal that is still on its way belongs to an earlier message. */
    r = session->signals > 0 ? 0 : process_flush(session);
    if (r < 0) {
        process_step(session, PROCESS_KILL); /* its exit status is its own if it has exited */
    }
    return r < 0 ? -EPIPE : 0;
}

int box_session_send_file(struct box_session *session, const struct box_fields *fields, int fd)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    if (session->state != PROCESS_READY) {
        return -EPIPE;
    }
    if (buf_size(&session->control.out) > 0 || session->signals > 0 || session->calls_due) {
        return -EAGAIN;
    }
    int r = channel_encode(&frame, fields->at, fields->count);
    ssize_t sent = r ? r
                     : packet_send(session->control.fd, buf_bytes(&frame), buf_size(&frame), &fd, 1,
                                   MSG_DONTWAIT);
    return sent < 0 ? (int)sent : (size_t)sent == buf_size(&frame) ? 0 : -EAGAIN;
}

/* --- output --- */

static const unsigned char magic[SPLIT_MAGIC] =
    "\0\x1b"
    "err";

/* Adds one byte to the held ones. Returns false when that is not the head of a frame. */
static bool hold(struct split *split, char byte)
{
    if (split->held_size < SPLIT_MAGIC && (unsigned char)byte != magic[split->held_size]) {
        return false;
    }
    split->held[split->held_size++] = (unsigned char)byte;
    if (split->held_size == SPLIT_HEAD) {
        split->left = split->held[SPLIT_MAGIC] | (size_t)split->held[SPLIT_MAGIC + 1] << 8;
        split->held_size = 0;
    }
    return true;
}

void split_flush(struct split *split, split_fn fn, void *arg)
{
    size_t size = split->held_size;
    split->held_size = split->left = 0;
    if (size > 0) {
        fn(arg, BOX_STDOUT, (const char *)split->held, size);
    }
}

void split_feed(struct split *split, const char *bytes, size_t size, split_fn fn, void *arg)
{
    const char *end = bytes + size;
    while (bytes < end) {
        size_t rest = (size_t)(end - bytes);
        if (split->left > 0) {
            size_t part = rest < split->left ? rest : split->left;
            split->left -= part;
            fn(arg, BOX_STDERR, bytes, part);
            bytes += part;
        } else if (split->held_size > 0) {
            /* A byte that does not match is checked again: it may start another head. */
            if (hold(split, *bytes)) {
                bytes++;
            } else {
                split_flush(split, fn, arg);
            }
        } else {
            const char *head = memchr(bytes, magic[0], rest);
            size_t part = head ? (size_t)(head - bytes) : rest;
            if (part > 0) {
                fn(arg, BOX_STDOUT, bytes, part);
            }
            bytes += part;
            if (head) {
                (void)hold(split, *bytes++);
            }
        }
    }
}

enum { SESSION_READS_A_TURN = 8 }; /* in one turn of the loop, then others have theirs */

static char read_space[SESSION_READ];

static void pipe_deliver(void *arg, enum box_stream stream, const char *bytes, size_t size)
{
    struct box_session *session = arg;
    session->events->on_output(session->arg, stream, bytes, size);
}

/* Reads available data, at most limit bytes. Returns false at the pipe's end. */
static bool pipe_read(struct session_pipe *pipe, size_t limit)
{
    while (limit > 0 && pipe->fd >= 0) {
        size_t want = limit < sizeof read_space ? limit : sizeof read_space;
        ssize_t size = read(pipe->fd, read_space, want);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return size < 0;
        }
        limit -= (size_t)size;
        if (pipe->session->box->spec->separate_streams || pipe->session->raw) {
            pipe_deliver(pipe->session, pipe->stream, read_space, (size_t)size);
        } else {
            split_feed(&pipe->session->split, read_space, (size_t)size, pipe_deliver,
                       pipe->session);
        }
    }
    return true;
}

static void pipe_close(struct session_pipe *pipe)
{
    loop_io_remove(&pipe->io);
    drop_fd(&pipe->fd);
}

static void pipe_on_io(void *arg, uint32_t)
{
    struct session_pipe *pipe = arg;
    if (!pipe_read(pipe, (size_t)SESSION_READS_A_TURN * SESSION_READ)) {
        pipe_close(pipe);
    }
}

void box_session_drain(struct box_session *session)
{
    for (unsigned i = 0; i < 2; i++) {
        struct session_pipe *pipe = &session->pipes[i];
        int waiting = 0;
        /* Only what is there at this moment: a background process may never stop writing. */
        if (pipe->fd >= 0 && ioctl(pipe->fd, FIONREAD, &waiting) == 0 && waiting > 0) {
            (void)pipe_read(pipe, (size_t)waiting);
        }
    }
    split_flush(&session->split, pipe_deliver, session);
}

void box_session_hold_output(struct box_session *session, bool hold)
{
    if (session->held == hold) {
        return;
    }
    session->held = hold;
    for (unsigned i = 0; i < 2; i++) {
        if (session->pipes[i].io.loop) {
            (void)loop_io_set(&session->pipes[i].io, hold ? 0 : EPOLLIN);
        }
    }
}

int pipes_attach(struct box_session *session)
{
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        struct session_pipe *pipe = &session->pipes[i];
        if (pipe->fd >= 0) {
            r = loop_io_add(session->box->loop, &pipe->io, pipe->fd, EPOLLIN, pipe_on_io, pipe);
        }
    }
    return r;
}

void pipes_close(struct box_session *session)
{
    for (unsigned i = 0; i < 2; i++) {
        pipe_close(&session->pipes[i]);
    }
}
