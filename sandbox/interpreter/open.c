#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/checkpoint_policy.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/spec/spec.h"

/* Makes the connections; guest_fds are the guest's ends. Pipes and memfds belong to no namespace;
 * init makes the socket pair, see init_protocol.h. */
static int session_connect(struct box_session *session, int guest_fds[SESSION_GUEST_FDS])
{
    session->fd = take_fd(&session->box->sessions.pair[0]);
    guest_fds[0] = take_fd(&session->box->sessions.pair[1]);
    unsigned pipes = session->box->spec->separate_streams ? 2 : 1;
    for (unsigned i = 0; i < pipes; i++) {
        int r = fd_pipe(&session->pipes[i].fd, &guest_fds[1 + i]);
        /* Not shared: O_NONBLOCK belongs to this end's file description, the guest's end has
         * another. */
        r = r ? r : fd_set_nonblock(session->pipes[i].fd, true);
        if (r < 0) {
            return r;
        }
        /* A program that opens /dev/stderr opens the pipe anew, as another user. */
        (void)fchmod(guest_fds[1 + i], S_IRUSR | S_IWUSR | S_IWGRP | S_IWOTH);
        (void)fcntl(session->pipes[i].fd, F_SETPIPE_SZ, SESSION_PIPE_BYTES);
    }
    if (pipes == 1) {
        guest_fds[2] = fcntl(guest_fds[1], F_DUPFD_CLOEXEC, 3);
        if (guest_fds[2] < 0) {
            return -errno;
        }
    }
    session->trace_fd = memfd_create("sandpiper-trace", MFD_CLOEXEC);
    guest_fds[3] = session->trace_fd < 0 ? -1 : fcntl(session->trace_fd, F_DUPFD_CLOEXEC, 3);
    bool greets = !session->is_branch && box_spec_is_written_through(session->box->spec) &&
                  !session->box->guest.is_seen;
    if (guest_fds[3] >= 0 && session->box->keeper.greet_fd >= 0 && greets) {
        guest_fds[4] = fcntl(session->box->keeper.greet_fd, F_DUPFD_CLOEXEC, 3);
    }
    return guest_fds[3] < 0 ? -errno : 0;
}

static int session_attach(struct box_session *session)
{
    struct loop *loop = session->box->loop;
    int r = loop_io_add(loop, &session->io, session->fd, EPOLLIN, session_on_io, session);
    return r ? r : session_output_attach(session);
}

/* Sends all of the frame with the guest's ends, in one piece. 0 or -errno. */
static int session_send_fds(int socket_fd, const struct buf *frame, const int *guest_fds)
{
    ssize_t sent = packet_send(socket_fd, buf_bytes(frame), buf_size(frame), guest_fds,
                               SESSION_GUEST_FDS - (guest_fds[4] < 0), MSG_DONTWAIT);
    if (sent < 0) {
        return (int)sent;
    }
    return (size_t)sent == buf_size(frame) ? 0 : -EAGAIN;
}

static int session_ask_zygote(struct box_session *session, const int *guest_fds)
{
    const struct box_limits *limits = &session->box->spec->limits;
    uint64_t memory = limits->memory_bytes;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"tag", session->tag},
        {"memory", memory},
        {"processes", limits->pids},
        {"early", session->early},
        {"measure_from", checkpoint_bytes(memory, CHECKPOINT_MEASURE_PERCENT)},
        /* Where a control group counts, every state gets a checkpoint: it can make way. */
        {"checkpoint_most", cgroup_has(&session->box->cgroup, CGROUP_MEMORY)
                                ? memory
                                : checkpoint_uncounted_most(memory)},
    };
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    char digits[NUMBERS][24];
    struct box_field fields[3 + 2 * NUMBERS] = {
        {"session", 7}, {"name", 4}, {session->name, strlen(session->name)}};
    for (unsigned i = 0; i < NUMBERS; i++) {
        int size = snprintf(digits[i], sizeof digits[i], "%" PRIu64, numbers[i].value);
        fields[3 + 2 * i] = (struct box_field){numbers[i].name, strlen(numbers[i].name)};
        fields[4 + 2 * i] = (struct box_field){digits[i], (size_t)size};
    }
    int r = channel_encode(&frame, fields, sizeof fields / sizeof *fields);
    return r ? r : session_send_fds(session->box->guest.fd, &frame, guest_fds);
}

/* A branch is a fork of its parent, or of the parent's checkpoint while that runs a cell: then the
 * checkpoint takes the frame from the socket that it shares with its parent. */
static int session_ask_parent(struct box_session *session, const int *guest_fds)
{
    struct box_session *parent = session->parent;
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    char tag[16];
    (void)snprintf(tag, sizeof tag, "%u", session->tag);
    const struct box_field fields[] = {{"branch", 6},
                                       {"name", 4},
                                       {session->name, strlen(session->name)},
                                       {"tag", 3},
                                       {tag, strlen(tag)}};
    if (!parent || parent->state != PROCESS_READY || buf_size(&parent->out) > 0) {
        return -ESRCH;
    }
    const struct session_checkpoint *checkpoint = parent->latest;
    if (session->branch_cell > 0 && !checkpoint) {
        return -ENOENT;
    }
    int r = channel_encode(&frame, fields, sizeof fields / sizeof *fields);
    r = r ? r : session_send_fds(parent->fd, &frame, guest_fds);
    /* With another checkpoint, the cell has ended meanwhile: the parent reads the frame itself. */
    if (r == 0 && session->branch_cell > 0 && checkpoint->cell == session->branch_cell) {
        session_signal_pid(parent, checkpoint->pid, SIGUSR1);
    }
    return r;
}

/* The zygote and box->sessions.pair exist. Sends one message to the zygote, and does not wait. */
static int session_begin(struct box_session *session)
{
    int guest_fds[SESSION_GUEST_FDS] = {-1, -1, -1, -1, -1};
    int r = session_connect(session, guest_fds);
    r = r ? r : session_attach(session);
    r = r                    ? r
        : session->is_branch ? session_ask_parent(session, guest_fds)
                             : session_ask_zygote(session, guest_fds);
    for (unsigned i = 0; i < SESSION_GUEST_FDS; i++) {
        own_close(&guest_fds[i]);
    }
    session_want_pair(session->box);
    if (r == 0) {
        process_step(session, PROCESS_BEGIN);
    }
    return r;
}

static bool box_can_begin(const struct box *box)
{
    return box->guest.fd >= 0 && box->sessions.pair[0] >= 0;
}

/* The session that has waited longest, or NULL: new ones are at the front of the list. */
static struct box_session *session_next_waiting(const struct box *box)
{
    struct box_session *oldest = NULL;
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        if (session->state == PROCESS_QUEUED) {
            oldest = session;
        }
    }
    return oldest;
}

void session_begin_waiting(struct box *box)
{
    struct box_session *session = NULL;
    while (box_can_begin(box) && (session = session_next_waiting(box))) {
        if (session_begin(session) < 0) {
            session_lose(session);
        }
    }
}

/* Keeps one pair in advance, so that a session need not wait for init. */
void session_want_pair(struct box *box)
{
    if (box->sessions.pair[0] < 0 && !box->sessions.pair_asked) {
        box->sessions.pair_asked = box_ask_pair(box) == 0;
    }
}

void session_pair_made(struct box *box, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box_session *session = session_next_waiting(box);
    if (!box->sessions.pair_asked) {
        return;
    }
    box->sessions.pair_asked = false;
    if (fds[0] >= 0 && fds[1] >= 0) {
        box->sessions.pair[0] = take_fd(&fds[0]);
        box->sessions.pair[1] = take_fd(&fds[1]);
        session_begin_waiting(box);
        session_calls_pair_made(box, /* failed= */ false);
    } else if (session) {
        log_info("sandbox", "no socket pair for a session: %s", strerror(reply->error));
        session_lose(session);
        session_want_pair(box);
    } else {
        session_calls_pair_made(box, /* failed= */ true);
    }
}

/* The zygote hangs, in a preloaded module or because of the guest's code: another one may work.
 * Waiting sessions receive its exit. */
static void session_open_late(void *arg)
{
    struct box_session *session = arg;
    if (session->state == PROCESS_QUEUED || session->is_branch) {
        session_lose(session);
    } else {
        struct wire_request request = {.op = WIRE_SIGNAL,
                                       .pid = session->box->guest.pid,
                                       .tag = WIRE_TAG_ZYGOTE,
                                       .signal = SIGKILL};
        (void)box_ask(session->box, &request, NULL, NULL);
    }
}

/* Losing one may free it, and with it change the list. */
void session_lose_branches(struct box_session *parent)
{
    struct box_session *session = parent->box->sessions.list;
    while (session) {
        if (session->parent == parent) {
            session->parent = NULL;
            session_lose(session);
            session = parent->box->sessions.list;
        } else {
            session = session->next;
        }
    }
}

void session_free(struct box_session *session)
{
    session_lose_branches(session);
    box_forget(session->box, session);
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->io);
    session_output_close(session);
    session_calls_close(session);
    own_close(&session->fd);
    own_close(&session->trace_fd);
    buf_done(&session->in);
    buf_done(&session->out);
    free(session->name);
    free(session);
}

/* A tag that no session has, for a new session or a branch. Returns 0 when there is none left. */
static uint32_t new_tag(struct box *box, const struct box_session *parent)
{
    if (parent) {
        for (uint32_t branch = 1; branch < WIRE_BRANCHES; branch++) {
            uint32_t tag = WIRE_TAG_OF_SESSION(parent->tag) | branch << WIRE_BRANCH_SHIFT;
            const struct box_session *other = box->sessions.list;
            while (other && other->tag != tag) {
                other = other->next;
            }
            if (!other) {
                return tag;
            }
        }
        return 0;
    }
    if (box->sessions.last_tag <= WIRE_TAG_LEAST) {
        box->sessions.last_tag = WIRE_TAG_ZYGOTE;
    }
    return --box->sessions.last_tag;
}

/* A session that queues. NULL when out of memory or tags. */
static struct box_session *session_new(struct box *box, const char *name,
                                       const struct box_session_events *events, void *arg,
                                       struct box_session *parent)
{
    struct box_session *session = calloc(1, sizeof *session);
    if (!session) {
        return NULL;
    }
    session->box = box;
    session->events = events;
    session->arg = arg;
    session->fd = -1;
    session->calls.fd = -1;
    session->trace_fd = -1;
    session->parent = parent;
    session->is_branch = parent != NULL;
    session->name = strdup(name);
    session->tag = new_tag(box, parent);
    for (unsigned i = 0; i < 2; i++) {
        session->pipes[i] =
            (struct session_pipe){.session = session, .stream = (enum box_stream)i, .fd = -1};
    }
    if (!session->name || session->tag == 0) {
        session_free(session);
        return NULL;
    }
    return session;
}

static int session_open(struct box_session *session, struct box_session **ret_session,
                        struct fail *ret_fail)
{
    struct box *box = session->box;
    session_want_pair(box); /* in case an earlier request failed */
    int r = box_can_begin(box) ? session_begin(session) : 0;
    if (r < 0) {
        session_free(session);
        return fail_set(ret_fail, -r, "cannot open a session");
    }
    session->next = box->sessions.list;
    box->sessions.list = session;
    loop_timer_in(box->loop, &session->timer,
                  session->is_branch ? SESSION_BRANCH_MS : SESSION_OPEN_MS, session_open_late,
                  session);
    *ret_session = session;
    return 0;
}

int box_session_open(struct box *box, const struct box_session_options *options,
                     const struct box_session_events *events, void *arg,
                     struct box_session **ret_session, struct fail *ret_fail)
{
    if (box->state != BOX_READY) {
        return fail_set(ret_fail, ENOTCONN, "the sandbox is not ready");
    }
    struct box_session *session = session_new(box, options->name, events, arg, NULL);
    if (!session) {
        return fail_set(ret_fail, ENOMEM, "a session");
    }
    session->early = options->early;
    return session_open(session, ret_session, ret_fail);
}

int box_session_branch(struct box_session *parent, unsigned cell,
                       const struct box_session_events *events, void *arg,
                       struct box_session **ret_session, struct fail *ret_fail)
{
    struct box *box = parent->box;
    struct box_session *session = session_new(box, parent->name, events, arg, parent);
    if (!session) {
        return fail_set(ret_fail, ENOMEM, "a branch");
    }
    session->branch_cell = cell;
    return session_open(session, ret_session, ret_fail);
}
