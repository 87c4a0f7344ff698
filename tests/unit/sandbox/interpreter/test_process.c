#include "sandbox/interpreter/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"
#include "tests/unit/unit.h"

/* A session without a sandbox: the test acts as its init, its zygote, and its interpreter. */
enum { ZYGOTE = 2, INTERPRETER = 7, CHECKPOINT = 8 };

static const struct box_spec spec = {.limits = {.memory_bytes = 1 << 30}};
static struct box box;
static struct box_session *session;
static int init_fd;      /* init's end */
static int guest_fd;     /* the zygote's */
static int session_fd;   /* the interpreter's */
static int first_fds[2]; /* those of earlier sessions */
static unsigned ready;
static unsigned messages;
static unsigned restored;
static unsigned ended;
static unsigned processes; /* that ended with a cell */
static unsigned slow;
static struct box_end end;

static void on_ready(void *)
{
    ready++;
}

static void on_message(void *, const struct box_message *)
{
    messages++;
}

static void on_checkpoint(void *, unsigned, enum box_checkpoint)
{
}

static void on_restored(void *, const struct box_end *how, unsigned, const struct box_message *)
{
    restored++;
    end = *how;
}

static void on_cell_ended(void *, unsigned count, const char *)
{
    processes += count;
}

static void on_slow(void *, const struct box_end *)
{
    slow++;
}

static void on_end(void *, const struct box_end *how)
{
    ended++;
    end = *how;
    session = NULL;
}

static void on_output(void *, enum box_stream, const char *, size_t)
{
}

static const struct box_session_events events = {.on_ready = on_ready,
                                                 .on_message = on_message,
                                                 .on_output = on_output,
                                                 .on_checkpoint = on_checkpoint,
                                                 .on_restored = on_restored,
                                                 .on_cell_ended = on_cell_ended,
                                                 .on_slow = on_slow,
                                                 .on_end = on_end};

/* For this session, immediately. Keeps the first of the received descriptors, the interpreter's
 * end. */
static int zygote_is_asked(const char *name)
{
    char frame[512];
    union {
        char bytes[CMSG_SPACE(SESSION_GUEST_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec data = {frame, sizeof frame};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fds[SESSION_GUEST_FDS];
    ssize_t size = recvmsg(guest_fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size <= 0 || !CMSG_FIRSTHDR(&message) || !memmem(frame, (size_t)size, name, strlen(name))) {
        return -1;
    }
    size_t count = (CMSG_FIRSTHDR(&message)->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), count * sizeof *fds);
    first_fds[first_fds[0] >= 0] = session_fd;
    session_fd = fds[0];
    for (size_t i = 1; i < count; i++) {
        (void)close(fds[i]);
    }
    return 0;
}

static int give_pair(void)
{
    const struct wire_reply reply = {.event = WIRE_PAIR_MADE};
    int pair[WIRE_FDS];
    if (fd_socketpair(SOCK_STREAM, pair) < 0 ||
        packet_send(init_fd, &reply, sizeof reply, pair, WIRE_FDS, 0) < 0) {
        return -1;
    }
    (void)close(pair[0]);
    (void)close(pair[1]);
    return loop_step(box.loop, 1000);
}

static void on_broken(struct box *, const struct fail *why)
{
    fail_msg("the sandbox was given up: %s", why->text);
}

static const struct box_handlers handlers = {.broken = on_broken};

static int set_up(void **)
{
    int link[2];
    int zygote[2];
    struct fail fail = {};
    ready = messages = restored = ended = processes = slow = 0;
    session_fd = first_fds[0] = first_fds[1] = -1;
    box = (struct box){.spec = &spec,
                       .state = BOX_READY,
                       .guest.pid = ZYGOTE,
                       .child.go_fd = -1,
                       .role = &zygote_role,
                       .handlers = &handlers,
                       .sessions.pair = {-1, -1}};
    box_init_prepare(&box);
    if (loop_new(&box.loop) < 0 || fd_socketpair(SOCK_SEQPACKET, link) < 0 ||
        fd_socketpair(SOCK_STREAM, zygote) < 0) {
        return -1;
    }
    init_fd = link[1];
    box.guest.fd = zygote[0];
    guest_fd = zygote[1];
    if (init_client_start(&box.init, box.loop, link[0]) < 0 ||
        box_session_open(&box, &(struct box_session_options){"first", .events = &events}, &session,
                         &fail) < 0 ||
        give_pair() < 0) {
        return -1;
    }
    return zygote_is_asked("first");
}

static int tear_down(void **)
{
    session_end_all(&box);
    box_init_close(&box);
    loop_free(box.loop);
    (void)close(box.guest.fd);
    (void)close(guest_fd);
    (void)close(init_fd);
    const int fds[] = {session_fd, first_fds[0], first_fds[1], box.sessions.pair[0],
                       box.sessions.pair[1]};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return 0;
}

/* Requests go out at the end of the loop's turn. */
static ssize_t take_request(struct wire_request *request)
{
    assert_int_equal(loop_step(box.loop, 0), 0);
    return packet_receive(init_fd, request, sizeof *request, NULL, 0);
}

static void assert_nothing_asked(void)
{
    struct wire_request request = {};
    assert_int_equal(take_request(&request), -EAGAIN);
}

/* The server's next request to init, which must be this. */
static struct wire_request asked(enum wire_op op)
{
    struct wire_request request = {};
    assert_true(take_request(&request) > 0);
    assert_int_equal(request.op, op);
    return request;
}

/* set_up's session has requested its own pair and begun; the next one's is requested. */
static void pairs_are_asked(void)
{
    (void)asked(WIRE_PAIR);
    (void)asked(WIRE_PAIR);
    assert_nothing_asked();
}

static struct box_session *open_session(const char *name)
{
    struct box_session *opened = NULL;
    struct fail fail = {};
    assert_int_equal(box_session_open(&box, &(struct box_session_options){name, .events = &events},
                                      &opened, &fail),
                     0);
    return opened;
}

static void answer(const struct wire_request *request, int error)
{
    struct wire_reply reply = {.event = WIRE_RESPONSE,
                               .id = request->id,
                               .error = error,
                               .pid = request->pid,
                               .processes = error ? 0 : 3};
    assert_true(packet_send(init_fd, &reply, sizeof reply, NULL, 0, 0) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

/* Puts a message into the socket, where it stays unread. */
static void leave(const struct box_field *fields, size_t count)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    assert_int_equal(channel_encode(&frame, fields, count), 0);
    assert_true(send(session_fd, buf_bytes(&frame), buf_size(&frame), MSG_NOSIGNAL) > 0);
}

static void say(const struct box_field *fields, size_t count)
{
    leave(fields, count);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

static void say_hello(void)
{
    say((const struct box_field[]){{"hello", 5}, {"pid", 3}, {"7", 1}}, 3);
}

static void become_ready(void)
{
    pairs_are_asked();
    say_hello();
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, 0);
    assert_int_equal(session->state, PROCESS_READY);
}

/* The session runs a cell, and then has a checkpoint. */
static void make_checkpoint(void)
{
    assert_int_equal(box_session_send(session, &(struct box_field){"run", 3}, 1), 0);
    say(
        (const struct box_field[]){
            {"checkpoint", 10}, {"checkpoint", 10}, {"6", 1}, {"cell", 4}, {"1", 1}},
        5);
    assert_nothing_asked(); /* by code: it came before the result */
    box_session_await_checkpoint(session, 1);
    say(
        (const struct box_field[]){
            {"checkpoint", 10}, {"checkpoint", 10}, {"8", 1}, {"cell", 4}, {"1", 1}},
        5);
    struct wire_request watch = asked(WIRE_WATCH);
    assert_int_equal(watch.pid, CHECKPOINT);
    answer(&watch, 0);
}

static void say_resumed(const char *pid)
{
    say(
        (const struct box_field[]){
            {"resumed", 7}, {"pid", 3}, {pid, 1}, {"checkpoint", 10}, {"9", 1}},
        5);
}

/* Lets the session's deadline pass. */
static void wait_for_deadline(void)
{
    loop_timer_arm(box.loop, &session->timer, clock_now_ns(), session->timer.fn,
                   session->timer.arg);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

static void a_watched_interpreter_stops_the_start_timer(void **)
{
    pairs_are_asked();
    say_hello();
    struct wire_request watch = asked(WIRE_WATCH);
    assert_int_equal(watch.pid, INTERPRETER);
    assert_int_equal(ready, 0);
    assert_non_null(session->timer.loop);
    answer(&watch, 0);
    assert_int_equal(ready, 1);
    assert_null(session->timer.loop);
}

static void a_zygote_that_hangs_is_killed_and_its_end_ends_the_session(void **)
{
    uint64_t now_ns = clock_now_ns();
    pairs_are_asked();
    assert_non_null(session->timer.loop);
    assert_true(session->timer.deadline_ns > now_ns);
    assert_true(session->timer.deadline_ns <= now_ns + SESSION_OPEN_MS * CLOCK_NS_PER_MS);
    wait_for_deadline();
    struct wire_request kill = asked(WIRE_SIGNAL);
    assert_int_equal(kill.pid, ZYGOTE);
    assert_int_equal(kill.tag, WIRE_TAG_ZYGOTE);
    assert_int_equal(kill.signal, SIGKILL);
    assert_int_equal(ended, 0);
    zygote_died(&box);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, session->tag);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
    assert_int_equal(ready, 0);
}

/* The reason is in its first message, which code cannot have sent; never an exit status. */
static void an_interpreter_without_its_own_domain_is_refused(void **)
{
    pairs_are_asked();
    say(
        (const struct box_field[]){
            {"hello", 5}, {"pid", 3}, {"7", 1}, {"refused", 7}, {"landlock_restrict_self", 22}},
        5);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_REFUSED);
    assert_int_equal(ready, 0);
}

/* init does not know the process that sent hello. */
static void an_unknown_interpreter_ends_the_session(void **)
{
    pairs_are_asked();
    say_hello();
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, ESRCH);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(ready, 0);
}

static void a_pair_in_advance_starts_a_session_at_once(void **)
{
    pairs_are_asked();
    assert_int_equal(give_pair(), 0);
    (void)open_session("second");
    assert_int_equal(zygote_is_asked("second"), 0);
    (void)asked(WIRE_PAIR);
    assert_nothing_asked();
}

static void sessions_that_wait_for_a_pair_begin_in_their_order(void **)
{
    pairs_are_asked();
    (void)open_session("second");
    (void)open_session("third");
    assert_nothing_asked(); /* one at a time */
    assert_int_equal(zygote_is_asked(""), -1);
    assert_int_equal(give_pair(), 0);
    assert_int_equal(zygote_is_asked("second"), 0);
    (void)asked(WIRE_PAIR);
    assert_int_equal(give_pair(), 0);
    assert_int_equal(zygote_is_asked("third"), 0);
    (void)asked(WIRE_PAIR);
}

static void sessions_wait_for_a_new_zygote(void **)
{
    pairs_are_asked();
    assert_int_equal(give_pair(), 0);
    zygote_died(&box); /* the first session's request is lost with it */
    (void)asked(WIRE_KILL_TAG);
    int new_guest_fd = take_fd(&box.guest.fd);
    struct box_session *second = open_session("second");
    zygote_died(&box);
    assert_nothing_asked();
    assert_int_equal(second->state, PROCESS_QUEUED);
    box.guest.fd = new_guest_fd;
    process_begin_waiting(&box);
    assert_int_equal(zygote_is_asked("second"), 0);
}

static void without_a_pair_the_waiting_session_is_lost(void **)
{
    const struct wire_reply reply = {.event = WIRE_PAIR_MADE, .error = EMFILE};
    pairs_are_asked();
    struct box_session *second = open_session("second");
    assert_true(packet_send(init_fd, &reply, sizeof reply, NULL, 0, 0) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, second->tag);
    (void)asked(WIRE_PAIR); /* requests another pair */
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
}

/* init has not sent a pair: the zygote is not at fault. */
static void a_session_that_waits_too_long_is_lost(void **)
{
    pairs_are_asked();
    struct box_session *second = open_session("second");
    session = second;
    wait_for_deadline();
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, second->tag);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
}

/* The caller waits for the process that replaces it, and asks that. */
static void a_dying_session_cannot_be_restored(void **)
{
    pairs_are_asked();
    say_hello();
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, 0);
    assert_int_equal(box_session_restore(session, 1), -ENOENT);
    box_session_kill(session);
    assert_int_equal(box_session_restore(session, 1), -EPIPE);
}

/* The socket may hold a result. */
static void last_messages_are_read_before_the_rest_is_killed(void **)
{
    become_ready();
    leave((const struct box_field[]){{"result", 6}}, 1);
    process_exited(&box, INTERPRETER, /* status= */ 3 << 8);
    assert_int_equal(messages, 1);
    assert_int_equal(session->state, PROCESS_SWEEPING);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_nothing_asked();
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_EXIT);
    assert_int_equal(end.code, 3);
}

static void a_killed_session_ends_with_both_its_exit_and_inits_response(void **)
{
    become_ready();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    box_session_kill(session);
    assert_nothing_asked();
    answer(&sweep, 0);
    assert_int_equal(session->state, PROCESS_REAPING);
    assert_int_equal(ended, 0);
    process_exited(&box, INTERPRETER, SIGKILL);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_KILLED);
}

static void what_init_kills_for_counts_more_than_the_server_s_reason(void **)
{
    become_ready();
    make_checkpoint();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    process_memory_killed(&box, &(struct wire_reply){.pid = INTERPRETER, .memory_bytes = 5});
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&sweep, 0);
    (void)asked(WIRE_SIGNAL);
    say_resumed("8");
    assert_int_equal(restored, 1);
    assert_int_equal(end.kind, BOX_END_OOM);
    assert_int_equal(end.used_bytes, 5);
    assert_int_equal(end.limit_bytes, 1 << 30);
    assert_int_equal(end.processes, 3);
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, 0);
    watch = asked(WIRE_WATCH);
    answer(&watch, 0);
    process_memory_killed(&box, &(struct wire_reply){.pid = CHECKPOINT, .memory_bytes = 5});
    process_disk_killed(&box, &(struct wire_reply){.pid = CHECKPOINT, .disk_bytes = 7});
    process_memory_killed(&box, &(struct wire_reply){.pid = CHECKPOINT, .memory_bytes = 5});
    box_session_close(session);
    assert_int_equal(session->death.end.kind, BOX_END_DISK);
    assert_int_equal(session->death.end.used_bytes, 7);
    assert_int_equal(session->death.end.processes, 0); /* of this death */
}

static void a_checkpoint_replaces_a_killed_session(void **)
{
    become_ready();
    make_checkpoint();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&sweep, 0);
    struct wire_request wake = asked(WIRE_SIGNAL);
    assert_int_equal(wake.pid, CHECKPOINT);
    assert_int_equal(wake.tag, session->tag);
    assert_int_equal(wake.signal, SIGUSR2);
    assert_int_equal(session->state, PROCESS_WAKING);
    assert_int_equal(box_session_send(session, &(struct box_field){"run", 3}, 1), -EPIPE);
    say_resumed("6"); /* a checkpoint that was given up */
    assert_int_equal(session->state, PROCESS_WAKING);
    say_resumed("8");
    assert_int_equal(session->state, PROCESS_READY);
    assert_int_equal(session->pid, CHECKPOINT);
    assert_int_equal(restored, 1);
    assert_int_equal(end.kind, BOX_END_KILLED);
    assert_int_equal(ended, 0);
    (void)asked(WIRE_WATCH); /* the new checkpoint */
    struct wire_request watch = asked(WIRE_WATCH);
    assert_int_equal(watch.pid, CHECKPOINT);
    assert_int_equal(watch.role, WIRE_ROLE_SESSION);
    answer(&watch, 0);
    assert_int_equal(session->state, PROCESS_READY);
}

/* Its exit would go unnoticed. */
static void a_resumed_checkpoint_that_is_not_watched_is_replaced(void **)
{
    become_ready();
    make_checkpoint();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&sweep, 0);
    (void)asked(WIRE_SIGNAL);
    say_resumed("8");
    (void)asked(WIRE_WATCH);
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, ESRCH);
    struct wire_request again = asked(WIRE_KILL_TAG);
    answer(&again, 0);
    struct wire_request wake = asked(WIRE_SIGNAL);
    assert_int_equal(wake.pid, 9);
    assert_int_equal(session->state, PROCESS_WAKING);
}

/* The session has died, and its checkpoint is being woken. */
static void wake_checkpoint(void)
{
    become_ready();
    make_checkpoint();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&sweep, 0);
    (void)asked(WIRE_SIGNAL);
}

/* What init sees of it, or why it sees nothing. */
static void look(uint64_t cpu_ms, bool idle, int error)
{
    wait_for_deadline();
    struct wire_request request = asked(WIRE_LOOK);
    assert_int_equal(request.pid, CHECKPOINT);
    struct wire_reply reply = {.event = WIRE_RESPONSE,
                               .id = request.id,
                               .error = error,
                               .pid = request.pid,
                               .idle = idle,
                               .cpu_ms = cpu_ms};
    assert_true(packet_send(init_fd, &reply, sizeof reply, NULL, 0, 0) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

/* What it has started ends with it, and the session has the end that it had. */
static void makes_way(void)
{
    struct wire_request kill = asked(WIRE_SIGNAL);
    assert_int_equal(kill.pid, CHECKPOINT);
    assert_int_equal(kill.signal, SIGKILL);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(session->state, PROCESS_SWEEPING);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_KILLED);
    assert_int_equal(end.stalled, 1);
    assert_int_equal(end.stalled_cell, 1);
    assert_int_equal(restored, 0);
}

static void a_checkpoint_that_computes_for_ever_makes_way(void **)
{
    wake_checkpoint();
    look(5000, false, 0); /* before it was woken: it has made branches */
    look(5900, false, 0);
    assert_int_equal(session->state, PROCESS_WAKING);
    look(6000, false, 0);
    makes_way();
}

static void a_checkpoint_that_sleeps_for_ever_makes_way(void **)
{
    wake_checkpoint();
    look(10, true, 0);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(session->state, PROCESS_WAKING);
        look(10, true, 0);
    }
    look(10, true, 0);
    makes_way();
    assert_int_equal(slow, 2);
}

/* Neither does one make way that gets no processor, nor one that sleeps between pieces of work. */
static void a_slow_checkpoint_resumes(void **)
{
    wake_checkpoint();
    for (unsigned i = 0; i < 50; i++) {
        look(10 + i / 9, i % 9 != 8, 0);
    }
    assert_int_equal(session->state, PROCESS_WAKING);
    say_resumed("8");
    assert_int_equal(session->state, PROCESS_READY);
    assert_int_equal(end.stalled, 0);
    assert_null(session->timer.loop);
}

static void a_checkpoint_of_which_nothing_is_known_makes_way_at_last(void **)
{
    wake_checkpoint();
    for (unsigned i = 0; i < 60; i++) {
        look(0, false, ESRCH);
    }
    assert_int_equal(session->state, PROCESS_WAKING);
    wait_for_deadline();
    makes_way();
}

/* Its exit status is its own, however late it comes. */
static void the_end_of_the_socket_ends_nothing(void **)
{
    become_ready();
    assert_int_equal(close(take_fd(&session_fd)), 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
    assert_null(session->timer.loop);
    assert_int_equal(session->state, PROCESS_READY);
    assert_nothing_asked();
    process_exited(&box, INTERPRETER, /* status= */ 3 << 8);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_EXIT);
    assert_int_equal(end.code, 3);
}

/* It may be another program, which would stay. */
static void an_interpreter_that_no_message_reaches_is_killed(void **)
{
    become_ready();
    assert_int_equal(close(take_fd(&session_fd)), 0);
    assert_int_equal(box_session_send(session, &(struct box_field){"run", 3}, 1), -EPIPE);
    assert_int_equal(session->state, PROCESS_KILLING);
    (void)asked(WIRE_KILL_TAG);
}

/* No exit is reported: init does not know it. */
static void an_interpreter_that_ends_before_hello_is_lost(void **)
{
    pairs_are_asked();
    assert_int_equal(close(take_fd(&session_fd)), 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
}

/* Also while it is being killed for another reason. */
static void no_checkpoint_replaces_a_closed_session(void **)
{
    become_ready();
    make_checkpoint();
    box_session_kill(session);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    box_session_close(session);
    struct wire_request kill = asked(WIRE_SIGNAL);
    assert_int_equal(kill.pid, CHECKPOINT);
    assert_int_equal(kill.tag, session->tag);
    assert_int_equal(kill.signal, SIGKILL);
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(restored, 0);
    assert_nothing_asked();
}

/* Only of this cell; the interpreter goes on. */
static void the_processes_of_a_cell_end_without_its_interpreter(void **)
{
    become_ready();
    assert_int_equal(box_session_end_cell(session, 12), 0);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, session->tag);
    assert_int_equal(sweep.cell, 12);
    answer(&sweep, 0);
    assert_int_equal(processes, 3);
    assert_int_equal(session->state, PROCESS_READY);
}

/* init may respond to the larger sweep first. */
static void a_session_may_end_before_the_processes_of_its_cell(void **)
{
    become_ready();
    assert_int_equal(box_session_end_cell(session, 12), 0);
    struct wire_request of_cell = asked(WIRE_KILL_TAG);
    box_session_kill(session);
    assert_int_equal(box_session_end_cell(session, 12), -EPIPE);
    struct wire_request of_all = asked(WIRE_KILL_TAG);
    assert_int_equal(of_all.cell, 0);
    process_exited(&box, INTERPRETER, SIGKILL);
    answer(&of_all, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.processes, 3);
    answer(&of_cell, 0);
    assert_int_equal(processes, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_watched_interpreter_stops_the_start_timer),
        TEST(a_zygote_that_hangs_is_killed_and_its_end_ends_the_session),
        TEST(an_interpreter_without_its_own_domain_is_refused),
        TEST(an_unknown_interpreter_ends_the_session),
        TEST(a_pair_in_advance_starts_a_session_at_once),
        TEST(sessions_that_wait_for_a_pair_begin_in_their_order),
        TEST(sessions_wait_for_a_new_zygote),
        TEST(without_a_pair_the_waiting_session_is_lost),
        TEST(a_session_that_waits_too_long_is_lost),
        TEST(a_dying_session_cannot_be_restored),
        TEST(last_messages_are_read_before_the_rest_is_killed),
        TEST(a_killed_session_ends_with_both_its_exit_and_inits_response),
        TEST(what_init_kills_for_counts_more_than_the_server_s_reason),
        TEST(a_checkpoint_replaces_a_killed_session),
        TEST(a_resumed_checkpoint_that_is_not_watched_is_replaced),
        TEST(a_checkpoint_that_computes_for_ever_makes_way),
        TEST(a_checkpoint_that_sleeps_for_ever_makes_way),
        TEST(a_slow_checkpoint_resumes),
        TEST(a_checkpoint_of_which_nothing_is_known_makes_way_at_last),
        TEST(the_end_of_the_socket_ends_nothing),
        TEST(an_interpreter_that_no_message_reaches_is_killed),
        TEST(an_interpreter_that_ends_before_hello_is_lost),
        TEST(no_checkpoint_replaces_a_closed_session),
        TEST(the_processes_of_a_cell_end_without_its_interpreter),
        TEST(a_session_may_end_before_the_processes_of_its_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
