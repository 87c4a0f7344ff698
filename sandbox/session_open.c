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
#include "base/own.h"
#include "sandbox/channel.h"
#include "sandbox/packet.h"
#include "sandbox/session.h"

/* Makes the connections; guest_fds are the guest's ends. */
static int session_connect(struct box_session *session, int guest_fds[SESSION_GUEST_FDS])
{
    int pair[2];
    int r = fd_socketpair(SOCK_STREAM, pair);
    if (r < 0) {
        return r;
    }
    session->fd = pair[0];
    guest_fds[0] = pair[1];
    /* The pair belongs to the host's network namespace, and with it to its abstract names: what has
     * one already cannot take another, unix(7), autobind. */
    if (bind(pair[1], &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)) < 0) {
        return -errno;
    }
    unsigned pipes = session->box->spec->separate_streams ? 2 : 1;
    for (unsigned i = 0; i < pipes; i++) {
        if (pipe2(pair, O_CLOEXEC) < 0) {
            return -errno;
        }
        session->pipes[i].fd = pair[0];
        guest_fds[1 + i] = pair[1];
        /* Ours alone: O_NONBLOCK belongs to this end's description, the guest's is another. */
        r = fd_set_nonblock(pair[0], true);
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

static int session_ask_zygote(struct box_session *session, const char *name, const int *guest_fds)
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
                                       {name, strlen(name)},
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
    ssize_t sent = packet_send(session->box->zygote_fd, buf_bytes(&frame), buf_size(&frame),
                               guest_fds, SESSION_GUEST_FDS, MSG_DONTWAIT);
    if (sent < 0) {
        return (int)sent;
    }
    return (size_t)sent == buf_size(&frame) ? 0 : -EAGAIN;
}

/* The zygote hangs, in what it preloads or by some code's hand: another one may do better. What
 * waits for it is told by its end. */
static void session_open_late(void *arg)
{
    struct box_session *session = arg;
    session_signal_pid(session, session->box->zygote_pid, SIGKILL);
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
    if (box->last_tag <= WIRE_TAG_LEAST) {
        box->last_tag = WIRE_TAG_ZYGOTE;
    }
    session->tag = --box->last_tag;
    for (unsigned i = 0; i < 2; i++) {
        session->pipes[i] =
            (struct session_pipe){.session = session, .stream = (enum box_stream)i, .fd = -1};
    }
    int guest_fds[SESSION_GUEST_FDS] = {-1, -1, -1, -1};
    int r = session_connect(session, guest_fds);
    r = r ? r : session_attach(session);
    r = r ? r : session_ask_zygote(session, name, guest_fds);
    for (unsigned i = 0; i < SESSION_GUEST_FDS; i++) {
        if (guest_fds[i] >= 0) {
            (void)close(guest_fds[i]);
        }
    }
    if (r < 0) {
        loop_io_remove(&session->io);
        session_output_close(session);
        if (session->fd >= 0) {
            (void)close(session->fd);
        }
        if (session->trace_fd >= 0) {
            (void)close(session->trace_fd);
        }
        free(session);
        return fail_set(ret_fail, -r, "open a session");
    }
    session->next = box->sessions;
    box->sessions = session;
    loop_timer_arm(box->loop, &session->timer, clock_now_ns() + SESSION_OPEN_MS * CLOCK_NS_PER_MS,
                   session_open_late, session);
    *ret_session = session;
    return 0;
}
