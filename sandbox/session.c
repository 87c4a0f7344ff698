/* One interpreter, as the server sees it: a control socket and two pipes.
 *
 *   STARTING ──hello──► READY ──exit, kill, broken channel──► ENDING ──all gone──► (freed)
 *
 * In ENDING pid 1 is asked to kill everything with the session's tag: what the interpreter has
 * started does not outlive it. The end is told when both have happened, the interpreter's own exit
 * (with its status) and the answer that nothing else is left; then the pipes hold all that will
 * ever come. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box.h"
#include "sandbox/channel.h"

enum {
    SESSION_READ = 65536,
    SESSION_READS_A_TURN = 8, /* then the loop serves the others */
    SESSION_PIPE_BYTES = 262144,
    SESSION_KILL_MS = 5000,  /* then the whole box goes */
    SESSION_CLOSED_MS = 200, /* from the socket's end to the process's */
    SESSION_GUEST_FDS = 4,
};

enum session_state { SESSION_STARTING, SESSION_READY, SESSION_ENDING };

struct session_pipe {
    struct box_session *session;
    enum box_stream stream;
    int fd;
    struct loop_io io;
};

struct box_session {
    struct box_session *next;
    struct box *box;
    const struct box_session_events *events;
    void *arg;
    enum session_state state;
    uint32_t tag;
    pid_t pid; /* in the box; 0 until hello */
    int fd;
    struct loop_io io;
    struct buf in;
    struct buf out;
    struct session_pipe pipes[2];
    int trace_fd; /* memfd that the guest's signal handler writes to */
    bool exited;
    int status;
    bool swept; /* nothing with the tag is left */
    bool killed;
    bool lost;
    uint64_t memory_bytes; /* the watchdog's reason */
    struct loop_timer timer;
};

static char read_space[SESSION_READ];

static void session_sweep(struct box_session *session);
static void session_lose(struct box_session *session);

/* --- output --- */

/* Reads what is there, at most limit bytes. Returns false at the pipe's end. */
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
        pipe->session->events->on_output(pipe->session->arg, pipe->stream, read_space,
                                         (size_t)size);
    }
    return true;
}

static void pipe_close(struct session_pipe *pipe)
{
    loop_io_remove(&pipe->io);
    if (pipe->fd >= 0) {
        (void)close(take_fd(&pipe->fd));
    }
}

static void pipe_on_io(void *arg, uint32_t events)
{
    struct session_pipe *pipe = arg;
    (void)events;
    if (!pipe_read(pipe, (size_t)SESSION_READS_A_TURN * SESSION_READ)) {
        pipe_close(pipe);
    }
}

void box_session_drain(struct box_session *session)
{
    for (unsigned i = 0; i < 2; i++) {
        struct session_pipe *pipe = &session->pipes[i];
        int waiting = 0;
        /* What is there now and no more: a writer left in the background may never stop. */
        if (pipe->fd >= 0 && ioctl(pipe->fd, FIONREAD, &waiting) == 0 && waiting > 0) {
            (void)pipe_read(pipe, (size_t)waiting);
        }
    }
}

/* --- the end --- */

static struct box_end session_outcome(struct box_session *session)
{
    const struct box_limits *limits = &session->box->spec->limits;
    struct box_end end = {.limit_bytes = limits->memory_bytes};
    bool by_signal = session->exited && WIFSIGNALED(session->status);
    if (session->memory_bytes > 0) {
        end.kind = BOX_END_OOM;
        end.used_bytes = session->memory_bytes;
    } else if (by_signal && WTERMSIG(session->status) == SIGKILL && !session->killed &&
               cgroup_oom_happened(&session->box->cgroup)) {
        end.kind = BOX_END_OOM;
        end.used_bytes = cgroup_memory_peak(&session->box->cgroup);
    } else if (session->killed) {
        end.kind = session->lost ? BOX_END_LOST : BOX_END_KILLED;
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
static void session_finish(struct box_session *session)
{
    struct box_end end = session_outcome(session);
    for (struct box_session **at = &session->box->sessions; *at; at = &(*at)->next) {
        if (*at == session) {
            *at = session->next;
            break;
        }
    }
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->io);
    (void)close(session->fd);
    (void)close(session->trace_fd);
    for (unsigned i = 0; i < 2; i++) {
        struct session_pipe *pipe = &session->pipes[i];
        int waiting = 0;
        if (pipe->fd >= 0 && ioctl(pipe->fd, FIONREAD, &waiting) == 0) {
            (void)pipe_read(pipe, (size_t)waiting);
        }
        pipe_close(pipe);
    }
    session->events->on_end(session->arg, &end);
    buf_done(&session->in);
    buf_done(&session->out);
    free(session);
}

static void session_swept(void *arg, const struct wire_reply *reply, int fd)
{
    struct box_session *session = arg;
    (void)fd;
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
        session_finish(session);
    }
}

static void session_stuck(void *arg)
{
    struct box_session *session = arg;
    struct fail fail = {};
    (void)fail_set(&fail, 0, "a session did not end when it was killed");
    box_broken(session->box, &fail);
}

static void session_sweep(struct box_session *session)
{
    if (session->state == SESSION_ENDING) {
        return;
    }
    session->state = SESSION_ENDING;
    loop_timer_arm(session->box->loop, &session->timer,
                   clock_now_ns() + SESSION_KILL_MS * CLOCK_NS_PER_MS, session_stuck, session);
    struct wire_request request = {.op = WIRE_KILL_TAG, .tag = session->tag};
    int r = link_send(session->box, &request, -1, session_swept, session);
    if (r < 0) {
        log_debug("sandbox", "sweep: %s", strerror(-r)); /* the timer ends it */
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
        return false;
    }
    session->exited = true;
    session->status = status;
    if (session->swept) {
        session_finish(session);
    } else {
        session_sweep(session);
    }
    return true;
}

void session_memory_killed(struct box *box, pid_t pid, uint64_t used_bytes)
{
    struct box_session *session = session_by_pid(box, pid);
    if (session) {
        session->memory_bytes = used_bytes;
    }
}

/* The zygote died, and with it the forks that it was asked for. */
void session_zygote_died(struct box *box)
{
    for (struct box_session *session = box->sessions; session; session = session->next) {
        if (session->state == SESSION_STARTING) {
            session_lose(session);
        }
    }
}

void session_end_all(struct box *box)
{
    while (box->sessions) {
        struct box_session *session = box->sessions;
        if (!session->exited) {
            session->killed = true;
        }
        session_finish(session);
    }
}

void box_session_kill(struct box_session *session)
{
    if (session->state != SESSION_ENDING) {
        session->killed = true;
        session_sweep(session);
    }
}

static void session_lose(struct box_session *session)
{
    if (session->state != SESSION_ENDING && !session->exited) {
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
    if (session->state == SESSION_READY) {
        struct wire_request request = {.op = WIRE_SIGNAL, .pid = session->pid, .signal = signal};
        (void)link_send(session->box, &request, -1, NULL, NULL);
    }
}

void box_session_interrupt(struct box_session *session)
{
    session_signal(session, SIGINT);
}

void box_session_trace(struct box_session *session)
{
    session_signal(session, SIGUSR1);
}

size_t box_session_traced(const struct box_session *session, char *text, size_t size)
{
    ssize_t length = pread(session->trace_fd, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* --- the control socket --- */

static void session_watched(void *arg, const struct wire_reply *reply, int fd)
{
    (void)arg;
    (void)reply;
    (void)fd;
}

static void session_hello(struct box_session *session, const struct box_message *message)
{
    struct box_field field;
    char text[24] = "";
    uint64_t pid = 0;
    if (box_message_get(message, "pid", &field) && field.size < sizeof text) {
        memcpy(text, field.data, field.size);
    }
    if (parse_u64(text, &pid) < 0 || pid < 2 || pid > INT32_MAX) {
        session_lose(session);
        return;
    }
    session->pid = (pid_t)pid;
    session->state = SESSION_READY;
    struct wire_request request = {
        .op = WIRE_WATCH, .pid = session->pid, .tag = session->tag, .role = WIRE_ROLE_SESSION};
    (void)link_send(session->box, &request, -1, session_watched, NULL);
    session->events->on_ready(session->arg);
}

static bool field_is(const struct box_field *field, const char *text)
{
    return field->size == strlen(text) && memcmp(field->data, text, field->size) == 0;
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
        if (session->state == SESSION_STARTING) {
            if (field_is(&fields[0], "hello")) {
                session_hello(session, &message);
            }
        } else {
            session->events->on_message(session->arg, &message);
        }
        buf_consume(&session->in, used);
    }
}

static int session_flush(struct box_session *session)
{
    while (buf_size(&session->out) > 0) {
        ssize_t size = send(session->fd, buf_bytes(&session->out), buf_size(&session->out),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
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
    }
    bool waiting = buf_size(&session->out) > 0;
    if (!waiting) {
        buf_clear(&session->out, SESSION_READ);
    }
    return session->io.loop
               ? loop_io_set(&session->io, waiting ? (uint32_t)(EPOLLIN | EPOLLOUT) : EPOLLIN)
               : 0;
}

static void session_on_io(void *arg, uint32_t events)
{
    struct box_session *session = arg;
    if (events & EPOLLOUT) {
        (void)session_flush(session);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        return;
    }
    char *space = NULL;
    if (buf_reserve(&session->in, SESSION_READ, &space) < 0) {
        session_lose(session);
        return;
    }
    ssize_t size = recv(session->fd, space, SESSION_READ, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size <= 0) {
        /* Closed: with the process's end, which pid 1 is about to report, or by the guest's own
         * code, which then is of no more use. */
        loop_io_remove(&session->io);
        if (session->state != SESSION_ENDING) {
            loop_timer_arm(session->box->loop, &session->timer,
                           clock_now_ns() + SESSION_CLOSED_MS * CLOCK_NS_PER_MS, session_closed,
                           session);
        }
        return;
    }
    buf_commit(&session->in, (size_t)size);
    session_messages(session);
}

int box_session_send(struct box_session *session, const struct box_field *fields, size_t count)
{
    int r = channel_encode(&session->out, fields, count);
    return r < 0 ? r : session_flush(session);
}

/* --- the beginning --- */

static int send_with_fds(int fd, const struct buf *frame, const int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf_bytes(frame),
                        .iov_len = buf_size(frame)};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
    ssize_t size = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0) {
        return -errno;
    }
    return (size_t)size == buf_size(frame) ? 0 : -EAGAIN;
}

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
    for (unsigned i = 0; i < 2; i++) {
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
    session->trace_fd = memfd_create("sandpiper-trace", MFD_CLOEXEC);
    guest_fds[3] = session->trace_fd < 0 ? -1 : fcntl(session->trace_fd, F_DUPFD_CLOEXEC, 3);
    return guest_fds[3] < 0 ? -errno : 0;
}

static int session_attach(struct box_session *session)
{
    struct loop *loop = session->box->loop;
    int r = loop_io_add(loop, &session->io, session->fd, EPOLLIN, session_on_io, session);
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        struct session_pipe *pipe = &session->pipes[i];
        r = loop_io_add(loop, &pipe->io, pipe->fd, EPOLLIN, pipe_on_io, pipe);
    }
    return r;
}

static int session_ask_zygote(struct box_session *session, const char *name, const int *guest_fds)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    char tag[16];
    (void)snprintf(tag, sizeof tag, "%u", session->tag);
    const struct box_field fields[] = {
        {"session", 7}, {"name", 4}, {name, strlen(name)}, {"tag", 3}, {tag, strlen(tag)}};
    int r = channel_encode(&frame, fields, sizeof fields / sizeof *fields);
    return r < 0 ? r : send_with_fds(session->box->zygote_fd, &frame, guest_fds, SESSION_GUEST_FDS);
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
    if (box->last_tag <= 1024) {
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
        for (unsigned i = 0; i < 2; i++) {
            pipe_close(&session->pipes[i]);
        }
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
    *ret_session = session;
    return 0;
}
