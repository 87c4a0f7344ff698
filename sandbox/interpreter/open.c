#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/session/session.h"
#include "sandbox/wire/channel.h"
#include "sandbox/wire/packet.h"

/* Makes the connections; guest_fds are the guest's ends. Pipes and memfds belong to no namespace; the
 * socket pair is pid 1's, see wire.h. */
static int session_connect(struct box_session *session, int guest_fds[SESSION_GUEST_FDS])
{
    int pair[2];
    session->fd = take_fd(&session->box->pair[0]);
    guest_fds[0] = take_fd(&session->box->pair[1]);
    unsigned pipes = session->box->spec->separate_streams ? 2 : 1;
    for (unsigned i = 0; i < pipes; i++) {
        if (pipe2(pair, O_CLOEXEC) < 0) {
            return -errno;
        }
        session->pipes[i].fd = pair[0];
        guest_fds[1 + i] = pair[1];
        /* Ours alone: O_NONBLOCK belongs to this end's description, the guest's is another. */
        int r = fd_set_nonblock(pair[0], true);
        (void)fcntl(pair[0], F_SETPIPE_SZ, SESSION_PIPE_BYTES);
        if (r < 0) {
            return r;
        }
    }
    if (pipes == 1) {
        guest_fds[2] = fcntl(guest_fds[1], F_DUPFD_CLOEXEC, 3);
        if (guest_fds[2] < 0) {
            return -errno;
        }
    }
    session->trace_fd = memfd_create("sandpiper-trace", MFD_CLOEXEC);
    guest_fds[3] = session->trace_fd < 0 ? -1 : fcntl(session->trace_fd, F_DUPFD_CLOEXEC, 3);
    return guest_fds[3] < 0 ? -errno : 0;
}

static int session_attach(struct box_session *session)
{
    struct loop *loop = session->box->loop;
    int r = loop_io_add(loop, &session->io, session->fd, EPOLLIN, session_on_io, session);
    return r ? r : session_output_attach(session);
}

static int session_ask_zygote(struct box_session *session, const int *guest_fds)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    char tag[16];
    char memory[24];
    char processes[16];
    (void)snprintf(tag, sizeof tag, "%u", session->tag);
    (void)snprintf(memory, sizeof memory, "%llu",
                   (unsigned long long)session->box->spec->limits.memory_bytes);
    (void)snprintf(processes, sizeof processes, "%u", session->box->spec->limits.pids);
    const struct box_field fields[] = {{"session", 7},
                                       {"name", 4},
                                       {session->name, strlen(session->name)},
                                       {"tag", 3},
                                       {tag, strlen(tag)},
                                       {"memory", 6},
                                       {memory, strlen(memory)},
                                       {"processes", 9},
                                       {processes, strlen(processes)}};
    int r = channel_encode(&frame, fields, sizeof fields / sizeof *fields);
    if (r < 0) {
        return r;
    }
    ssize_t sent = packet_send(session->box->guest_fd, buf_bytes(&frame), buf_size(&frame),
                               guest_fds, SESSION_GUEST_FDS, MSG_DONTWAIT);
    if (sent < 0) {
        return (int)sent;
    }
    return (size_t)sent == buf_size(&frame) ? 0 : -EAGAIN;
}

/* box->pair and the zygote are there. One message to the zygote, and nothing is waited for. */
static int session_begin(struct box_session *session)
{
    int guest_fds[SESSION_GUEST_FDS] = {-1, -1, -1, -1};
    int r = session_connect(session, guest_fds);
    r = r ? r : session_attach(session);
    r = r ? r : session_ask_zygote(session, guest_fds);
    for (unsigned i = 0; i < SESSION_GUEST_FDS; i++) {
        if (guest_fds[i] >= 0) {
            (void)close(guest_fds[i]);
        }
    }
    session_want_pair(session->box);
    return r;
}

static bool box_can_begin(const struct box *box)
{
    return box->guest_fd >= 0 && box->pair[0] >= 0;
}

/* The one that has waited longest, or NULL: they are entered in front. */
static struct box_session *session_next_waiting(const struct box *box)
{
    struct box_session *oldest = NULL;
    for (struct box_session *session = box->sessions; session; session = session->next) {
        if (session->state == SESSION_STARTING && session->fd < 0) {
            oldest = session;
        }
    }
    return oldest;
}

void session_begin_waiting(struct box *box)
{
    struct box_session *session = box_can_begin(box) ? session_next_waiting(box) : NULL;
    while (session) {
        if (session_begin(session) < 0) {
            session_lose(session);
        }
        session = box_can_begin(box) ? session_next_waiting(box) : NULL;
    }
}

/* There is always one in advance, so that a session need not wait for pid 1. */
void session_want_pair(struct box *box)
{
    if (box->pair[0] < 0 && !box->pair_asked) {
        box->pair_asked = link_ask_pair(box) == 0;
    }
}

void session_pair_made(struct box *box, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box_session *session = session_next_waiting(box);
    if (!box->pair_asked) {
        return;
    }
    box->pair_asked = false;
    if (fds[0] >= 0 && fds[1] >= 0) {
        box->pair[0] = take_fd(&fds[0]);
        box->pair[1] = take_fd(&fds[1]);
        session_begin_waiting(box);
    } else if (session) {
        log_info("sandbox", "no socket pair for a session: %s", strerror(reply->error));
        session_lose(session);
        session_want_pair(box);
    }
}

/* The zygote hangs, in what it preloads or by some code's hand: another one may do better. What
 * waits for it is told by its end. */
static void session_open_late(void *arg)
{
    struct box_session *session = arg;
    if (session->fd < 0) {
        session_lose(session);
    } else {
        session_signal_pid(session, session->box->guest_pid, SIGKILL);
    }
}

void session_free(struct box_session *session)
{
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->io);
    session_output_close(session);
    if (session->fd >= 0) {
        (void)close(session->fd);
    }
    if (session->trace_fd >= 0) {
        (void)close(session->trace_fd);
    }
    buf_done(&session->in);
    buf_done(&session->out);
    free(session->name);
    free(session);
}

int box_session_open(struct box *box, const char *name, const struct box_session_events *events,
                     void *arg, struct box_session **ret_session, struct fail *ret_fail)
{
    if (box->state != BOX_READY) {
        return fail_set(ret_fail, ENOTCONN, "the sandbox is not ready");
    }
    struct box_session *session = calloc(1, sizeof *session);
    if (!session) {
        return fail_set(ret_fail, ENOMEM, "a session");
    }
    session->box = box;
    session->events = events;
    session->arg = arg;
    session->fd = -1;
    session->trace_fd = -1;
    session->name = strdup(name);
    if (box->last_tag <= WIRE_TAG_LEAST) {
        box->last_tag = WIRE_TAG_ZYGOTE;
    }
    session->tag = --box->last_tag;
    for (unsigned i = 0; i < 2; i++) {
        session->pipes[i] =
            (struct session_pipe){.session = session, .stream = (enum box_stream)i, .fd = -1};
    }
    session_want_pair(box); /* where none could be had for the one before */
    int r = session->name ? 0 : -ENOMEM;
    if (r == 0 && box_can_begin(box)) {
        r = session_begin(session);
    }
    if (r < 0) {
        session_free(session);
        return fail_set(ret_fail, -r, "open a session");
    }
    session->next = box->sessions;
    box->sessions = session;
    loop_timer_arm(box->loop, &session->timer, clock_now_ns() + SESSION_OPEN_MS * CLOCK_NS_PER_MS,
                   session_open_late, session);
    *ret_session = session;
    return 0;
}
