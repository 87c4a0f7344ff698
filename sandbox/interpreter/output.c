#include <errno.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/interpreter/process.h"

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
        if (pipe->session->box->spec->separate_streams) {
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

int session_output_attach(struct box_session *session)
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

void session_output_close(struct box_session *session)
{
    for (unsigned i = 0; i < 2; i++) {
        pipe_close(&session->pipes[i]);
    }
}
