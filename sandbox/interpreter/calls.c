/* The socket on which code calls tools of other servers: one for each interpreter, which gets it
 * with its first message. Apart from the control socket, so that what code writes here can disturb
 * nothing else. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"

enum { CALLS_READ = 65536, FIELDS = 16 };

void session_calls_close(struct box_session *session)
{
    struct session_calls *calls = &session->calls;
    loop_io_remove(&calls->io);
    drop_fd(&calls->fd);
    buf_done(&calls->in);
    buf_done(&calls->out);
    calls->due = false;
}

/* While the guest reads nothing, neither does the server. */
static void calls_flush(struct box_session *session)
{
    struct session_calls *calls = &session->calls;
    while (buf_size(&calls->out) > 0) {
        ssize_t size = send(calls->fd, buf_bytes(&calls->out), buf_size(&calls->out),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (size < 0 && errno != EINTR) {
            break; /* the other end of a closed one is reported as it is read */
        }
        buf_consume(&calls->out, size > 0 ? (size_t)size : 0);
    }
    size_t left = buf_size(&calls->out);
    if (left == 0) {
        buf_clear(&calls->out, CALLS_READ);
    }
    if (calls->io.loop) {
        (void)loop_io_set(&calls->io, (left > 0 ? (uint32_t)EPOLLOUT : 0U) |
                                          (left < LIMIT_FRAME_IN_BYTES ? (uint32_t)EPOLLIN : 0U));
    }
}

static void calls_break(struct box_session *session)
{
    log_info("sandbox", "code has broken the socket for calls of tools");
    session_calls_close(session);
}

/* Receives without space for descriptors, which the kernel therefore closes, unix(7). */
static void calls_read(struct box_session *session)
{
    struct session_calls *calls = &session->calls;
    struct box_field fields[FIELDS];
    char *space = NULL;
    size_t count = 0;
    size_t used = 0;
    if (buf_reserve(&calls->in, CALLS_READ, &space) < 0) {
        calls_break(session);
        return;
    }
    ssize_t size = recv(calls->fd, space, CALLS_READ, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size <= 0) {
        session_calls_close(session);
        return;
    }
    buf_commit(&calls->in, (size_t)size);
    for (;;) {
        enum channel_result result = channel_next(&calls->in, fields, FIELDS, &count, &used);
        if (result == CHANNEL_NONE) {
            return;
        }
        if (result == CHANNEL_BROKEN) {
            calls_break(session);
            return;
        }
        session->events->on_call(session->arg, &(struct box_message){fields, count});
        if (calls->fd < 0) {
            return;
        }
        buf_consume(&calls->in, used);
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
    struct session_calls *calls = &session->calls;
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    calls->fd = take_fd(&session->box->sessions.pair[0]);
    defer_close int theirs = take_fd(&session->box->sessions.pair[1]);
    session_want_pair(session->box);
    calls->due = false;
    int r = channel_encode(&frame, fields, 1);
    ssize_t sent =
        r ? r
          : packet_send(session->fd, buf_bytes(&frame), buf_size(&frame), &theirs, 1, MSG_DONTWAIT);
    if (sent != (ssize_t)buf_size(&frame) ||
        loop_io_add(session->box->loop, &calls->io, calls->fd, EPOLLIN, calls_on_io, session) < 0) {
        calls_break(session);
    }
}

void session_calls_prepare(struct box_session *session)
{
    if (!session->box->spec->calls || session->calls.fd >= 0 || session->calls.due ||
        buf_size(&session->out) > 0) {
        return;
    }
    if (session->box->sessions.pair[0] >= 0) {
        calls_connect(session);
    } else {
        session->calls.due = true;
        session_want_pair(session->box);
    }
}

void session_calls_pair_made(struct box *box, bool failed)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        if (session->calls.due && (failed || box->sessions.pair[0] >= 0)) {
            session->calls.due = false;
            if (!failed) {
                calls_connect(session);
            }
            (void)session_flush(session);
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
