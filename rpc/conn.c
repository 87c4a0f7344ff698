/* A connection is a state machine that conn_step() moves on by one small step: dispatch a line that
 * was read, write responses, read more. Steps follow each other until neither descriptor is ready.
 * There is one writer: responses of tools that end later go through conn_written(), which tries to
 * write at once. The loop watches stdout for EPOLLOUT only after EAGAIN.
 *
 *   OPEN ──(the client does not read)──► STALLED ──(it reads again)──► OPEN
 *     └─(stdin ended)──► ENDING ─┐
 *   any ─(stdout broke)─► BROKEN ┴─(on_closed() has run, from the loop)──► CLOSED
 */
#include "rpc/conn.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "rpc/message.h"
#include "rpc/peer.h"

enum { CONN_READ_BYTES = 64 << 10, CONN_KEEP_BYTES = 1 << 20 };

enum conn_state {
    CONN_OPEN,
    CONN_STALLED, /* too many unread responses: nothing is read or dispatched */
    CONN_ENDING,  /* stdin ended: responses are still written */
    CONN_BROKEN,  /* stdout is gone: responses are dropped */
    CONN_CLOSED,
    CONN_STATE_COUNT,
};

static const char *const state_names[CONN_STATE_COUNT] = {"open", "stalled", "ending", "broken",
                                                          "closed"};

enum conn_progress { CONN_IDLE, CONN_PROGRESS };

struct rpc_conn {
    struct loop *loop;
    int fd_in;
    int fd_out;
    struct loop_io io_in;
    struct loop_io io_out;
    struct loop_task again;  /* for a stdin that epoll refuses: it is always ready */
    struct loop_task closed; /* the end comes from the loop, never inside a tool's call */
    enum conn_state state;
    bool stepping;
    bool in_polled; /* epoll takes fd_in */
    bool in_ready;
    bool in_ended;
    bool out_ready;
    bool out_broken;
    uint64_t moved_ns; /* when bytes last went in either direction */
    bool greeted;
    struct frame frame;
    struct rpc_peer peer;
    void (*on_closed)(void *arg);
    void *arg;
};

static void conn_run(struct rpc_conn *conn);

static void conn_close(void *arg)
{
    struct rpc_conn *conn = arg;
    call_cancel_all(&conn->peer);
    conn->state = CONN_CLOSED;
    conn->on_closed(conn->arg); /* may free conn */
}

static void conn_set_state(struct rpc_conn *conn, enum conn_state state)
{
    if (conn->state == state) {
        return;
    }
    log_trace("rpc", "connection %s -> %s", state_names[conn->state], state_names[state]);
    conn->state = state;
    if (state == CONN_ENDING || state == CONN_BROKEN) {
        loop_io_remove(&conn->io_in);
        loop_task_cancel(&conn->again);
        loop_task_queue(conn->loop, &conn->closed, conn_close, conn);
    }
}

static void conn_break(struct rpc_conn *conn, int code)
{
    log_debug("rpc", "cannot write to stdout: errno=%d", code);
    conn->out_broken = true;
    conn->out_ready = false;
    loop_io_remove(&conn->io_out);
    buf_done(&conn->peer.out);
    if (conn->state == CONN_OPEN || conn->state == CONN_STALLED) {
        conn_set_state(conn, CONN_BROKEN);
    }
}

/* Writes as much of the responses as stdout takes. */
static void conn_write(struct rpc_conn *conn)
{
    struct buf *out = &conn->peer.out;
    ssize_t n = write(conn->fd_out, buf_bytes(out), buf_size(out));
    if (n >= 0) {
        conn->moved_ns = clock_now_ns();
        buf_consume(out, (size_t)n);
        if (buf_size(out) == 0) {
            buf_clear(out, CONN_KEEP_BYTES);
        }
    } else if (errno == EAGAIN) {
        conn->out_ready = false;
        if (conn->io_out.loop && loop_io_set(&conn->io_out, EPOLLOUT) < 0) {
            conn_break(conn, errno);
        }
    } else if (errno != EINTR) {
        conn_break(conn, errno);
    }
}

static void conn_read(struct rpc_conn *conn)
{
    char *space = NULL;
    conn->in_ready = false; /* level-triggered: the loop reports when there is more */
    if (frame_reserve(&conn->frame, CONN_READ_BYTES, &space) < 0) {
        log_error("rpc", "out of memory for a request of %zu bytes or more",
                  buf_size(&conn->frame.in));
        conn->in_ended = true;
        return;
    }
    ssize_t n = read(conn->fd_in, space, CONN_READ_BYTES);
    if (n > 0) {
        conn->moved_ns = clock_now_ns();
        frame_commit(&conn->frame, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        conn->in_ended = true;
    }
}

/* Dispatches one line. CONN_IDLE when there is none. */
static enum conn_progress conn_dispatch(struct rpc_conn *conn)
{
    struct span line = {};
    switch (frame_next(&conn->frame, LIMIT_LINE_BYTES, conn->in_ended, &line)) {
    case FRAME_LINE:
        dispatch_line(&conn->peer, line);
        return CONN_PROGRESS;
    case FRAME_TOO_LONG:
        dispatch_too_long(&conn->peer, line);
        return CONN_PROGRESS;
    case FRAME_NONE:
        break;
    }
    return CONN_IDLE;
}

/* All lines are dispatched and none will follow. */
static void conn_end(struct rpc_conn *conn)
{
    conn_set_state(conn, CONN_ENDING);
    mcp_finish(&conn->peer);
}

static enum conn_progress conn_step(struct rpc_conn *conn)
{
    bool full = buf_size(&conn->peer.out) > LIMIT_OUT_QUEUE_BYTES;
    if (conn->state == CONN_OPEN && !full && conn_dispatch(conn) == CONN_PROGRESS) {
        return CONN_PROGRESS;
    }
    if (conn->state == CONN_BROKEN || conn->state == CONN_CLOSED) {
        return CONN_IDLE;
    }
    if (conn->out_ready && buf_size(&conn->peer.out) > 0) {
        conn_write(conn);
        return CONN_PROGRESS;
    }
    if (conn->peer.greeted && !conn->greeted) {
        conn->greeted = true;
        if (conn->peer.tools.greeted) {
            conn->peer.tools.greeted(conn->peer.tools.ctx);
        }
        return CONN_PROGRESS;
    }
    if (conn->state == CONN_ENDING) {
        return CONN_IDLE;
    }
    if (full != (conn->state == CONN_STALLED)) {
        conn_set_state(conn, full ? CONN_STALLED : CONN_OPEN);
        return CONN_PROGRESS;
    }
    if (conn->state == CONN_STALLED) {
        return CONN_IDLE;
    }
    if (conn->in_ended) {
        conn_end(conn);
        return CONN_PROGRESS;
    }
    if (conn->in_ready) {
        conn_read(conn);
        return CONN_PROGRESS;
    }
    return CONN_IDLE;
}

static void conn_on_in(void *arg, uint32_t)
{
    struct rpc_conn *conn = arg;
    conn->in_ready = true;
    conn_run(conn);
}

static void conn_on_again(void *arg)
{
    conn_on_in(arg, EPOLLIN);
}

static void conn_on_out(void *arg, uint32_t events)
{
    struct rpc_conn *conn = arg;
    if (events & (EPOLLERR | EPOLLHUP)) { /* the reader is gone, as EPIPE would report */
        conn_break(conn, EPIPE);
        return;
    }
    conn->out_ready = true;
    if (loop_io_set(&conn->io_out, 0) < 0) {
        conn_break(conn, EIO);
        return;
    }
    conn_run(conn);
}

/* Watches stdin only while it is read: epoll cannot mask a hang-up, so the loop would spin. */
static void conn_watch(struct rpc_conn *conn)
{
    if (conn->state != CONN_OPEN) {
        loop_io_remove(&conn->io_in);
        return;
    }
    if (conn->in_polled && !conn->io_in.loop) {
        int r = loop_io_add(conn->loop, &conn->io_in, conn->fd_in, EPOLLIN, conn_on_in, conn);
        conn->in_polled = r == 0; /* EPERM: a file without readiness, epoll_ctl(2) */
    }
    if (!conn->in_polled) {
        loop_task_queue(conn->loop, &conn->again, conn_on_again, conn);
    }
}

static void conn_run(struct rpc_conn *conn)
{
    if (conn->stepping) {
        return; /* the loop below checks what has changed */
    }
    conn->stepping = true;
    while (conn_step(conn) == CONN_PROGRESS) {
    }
    conn->stepping = false;
    conn_watch(conn);
}

static void conn_written(void *arg)
{
    struct rpc_conn *conn = arg;
    if (conn->out_broken) {
        buf_clear(&conn->peer.out, 0);
        return;
    }
    conn_run(conn);
}

/* NOLINTNEXTLINE(readability-function-size): each of the eight has another owner */
int rpc_conn_new(struct loop *loop, int fd_in, int fd_out, const struct rpc_config *config,
                 const struct rpc_tools *tools, void (*on_closed)(void *arg), void *arg,
                 struct rpc_conn **ret_conn)
{
    assert(fd_in != fd_out); /* epoll knows a descriptor by its number */
    int r = fd_set_nonblock(fd_in, true);
    r = r ? r : fd_set_nonblock(fd_out, true);
    if (r < 0) {
        return r;
    }
    struct rpc_conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        return -ENOMEM;
    }
    *conn = (struct rpc_conn){
        .loop = loop,
        .fd_in = fd_in,
        .fd_out = fd_out,
        .in_polled = true,
        .out_ready = true,
        .moved_ns = clock_now_ns(),
        .on_closed = on_closed,
        .arg = arg,
        .peer = {.config = *config,
                 .tools = *tools,
                 .loop = loop,
                 .written = conn_written,
                 .arg = conn},
    };
    /* No events: epoll reports errors and hang-ups all the same, epoll_ctl(2). */
    r = loop_io_add(loop, &conn->io_out, fd_out, 0, conn_on_out, conn);
    if (r < 0 && r != -EPERM) {
        free(conn);
        return r;
    }
    conn_watch(conn);
    *ret_conn = conn;
    return 0;
}

void rpc_conn_free(struct rpc_conn *conn)
{
    if (!conn) {
        return;
    }
    assert(!conn->stepping);
    conn->stepping = true; /* responses to what the tools end here are not written */
    rpc_peer_done(&conn->peer);
    loop_io_remove(&conn->io_in);
    loop_io_remove(&conn->io_out);
    loop_task_cancel(&conn->again);
    loop_task_cancel(&conn->closed);
    frame_done(&conn->frame);
    free(conn);
}

int rpc_conn_flush(struct rpc_conn *conn, int timeout_ms)
{
    uint64_t deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    while (!conn->out_broken && buf_size(&conn->peer.out) > 0) {
        conn_write(conn);
        if (conn->out_ready) {
            continue;
        }
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= deadline_ns) {
            return -ETIMEDOUT;
        }
        struct pollfd ready = {.fd = conn->fd_out, .events = POLLOUT};
        (void)poll(&ready, 1, (int)((deadline_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
        conn->out_ready = true; /* write(2) will return the error */
    }
    return conn->out_broken ? -EPIPE : 0;
}

uint64_t rpc_conn_quiet_ms(const struct rpc_conn *conn)
{
    return conn->peer.calls ? 0 : (clock_now_ns() - conn->moved_ns) / CLOCK_NS_PER_MS;
}
