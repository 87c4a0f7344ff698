#include "sandbox/session/session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/wire/channel.h"
#include "sandbox/wire/packet.h"
#include "tests/unit/unit.h"

/* A session of a box that is not there: the test is its pid 1, its zygote, and its interpreter. */
enum { ZYGOTE = 2, INTERPRETER = 7 };

static const struct box_spec spec = {.limits = {.memory_bytes = 1 << 30}};
static struct box box;
static struct box_session *session;
static int init_fd;    /* pid 1's end */
static int guest_fd;   /* the zygote's */
static int session_fd; /* the interpreter's */
static unsigned ready;
static unsigned ended;
static struct box_end end;

static void on_ready(void *)
{
    ready++;
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

static const struct box_session_events events = {
    .on_ready = on_ready, .on_output = on_output, .on_end = on_end};

/* For this session, and now. Keeps of the descriptors that came the first, the interpreter's end. */
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
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
    if (session_fd >= 0) {
        (void)close(session_fd);
    }
    session_fd = fds[0];
    for (unsigned i = 1; i < SESSION_GUEST_FDS; i++) {
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

static int set_up(void **)
{
    int link[2];
    int zygote[2];
    struct fail fail = {};
    ready = ended = 0;
    session_fd = -1;
    box = (struct box){.spec = &spec,
                       .state = BOX_READY,
                       .guest_pid = ZYGOTE,
                       .go_fd = -1,
                       .link.fd = -1,
                       .lookout.fd = -1,
                       .pair = {-1, -1}};
    if (loop_new(&box.loop) < 0 || fd_socketpair(SOCK_SEQPACKET, link) < 0 ||
        fd_socketpair(SOCK_STREAM, zygote) < 0) {
        return -1;
    }
    init_fd = link[1];
    box.guest_fd = zygote[0];
    guest_fd = zygote[1];
    if (link_start(&box.link, &box, link[0]) < 0 ||
        box_session_open(&box, "first", &events, NULL, &session, &fail) < 0 || give_pair() < 0) {
        return -1;
    }
    return zygote_is_asked("first");
}

static int tear_down(void **)
{
    session_end_all(&box);
    link_end(&box);
    loop_free(box.loop);
    (void)close(box.guest_fd);
    (void)close(guest_fd);
    (void)close(init_fd);
    const int fds[] = {session_fd, box.pair[0], box.pair[1]};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return 0;
}

static void assert_nothing_asked(void)
{
    struct wire_request request = {};
    assert_int_equal(packet_receive(init_fd, &request, sizeof request, NULL, 0), -EAGAIN);
}

/* What the server asks of pid 1 next, which must be this. */
static struct wire_request asked(enum wire_op op)
{
    struct wire_request request = {};
    assert_true(packet_receive(init_fd, &request, sizeof request, NULL, 0) > 0);
    assert_int_equal(request.op, op);
    return request;
}

/* set_up's session has asked for its own pair, and begun; the next one's is on order. */
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
    assert_int_equal(box_session_open(&box, name, &events, NULL, &opened, &fail), 0);
    return opened;
}

static void answer(const struct wire_request *request, int error)
{
    struct wire_reply reply = {.event = WIRE_ANSWER, .id = request->id, .error = error};
    assert_true(packet_send(init_fd, &reply, sizeof reply, NULL, 0, 0) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

static void say(const struct box_field *fields, size_t count)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    assert_int_equal(channel_encode(&frame, fields, count), 0);
    assert_true(send(session_fd, buf_bytes(&frame), buf_size(&frame), MSG_NOSIGNAL) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

static void say_hello(void)
{
    say((const struct box_field[]){{"hello", 5}, {"pid", 3}, {"7", 1}}, 3);
}

/* Lets the session's deadline pass. */
static void wait_for_deadline(void)
{
    loop_timer_arm(box.loop, &session->timer, clock_now_ns(), session->timer.fn,
                   session->timer.arg);
    assert_int_equal(loop_step(box.loop, 1000), 0);
}

static void an_interpreter_that_says_hello_is_waited_for_no_longer(void **)
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
    assert_int_equal(kill.signal, SIGKILL);
    assert_int_equal(ended, 0);
    session_zygote_died(&box);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, session->tag);
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
    assert_int_equal(ready, 0);
}

/* Its reason is a word of its first message, which no code can have sent; never an exit status. */
static void an_interpreter_without_a_domain_of_its_own_is_refused(void **)
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

/* pid 1 does not know the process that said hello. */
static void an_interpreter_that_is_not_there_ends_the_session(void **)
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

static void a_socket_pair_in_advance_is_not_waited_for(void **)
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
    session_zygote_died(&box); /* the first one's request died with it */
    (void)asked(WIRE_KILL_TAG);
    int new_guest_fd = take_fd(&box.guest_fd);
    struct box_session *second = open_session("second");
    session_zygote_died(&box);
    assert_nothing_asked();
    assert_int_equal(second->state, SESSION_STARTING);
    box.guest_fd = new_guest_fd;
    session_begin_waiting(&box);
    assert_int_equal(zygote_is_asked("second"), 0);
}

static void without_a_pair_the_session_that_waits_is_lost(void **)
{
    const struct wire_reply reply = {.event = WIRE_PAIR_MADE, .error = EMFILE};
    pairs_are_asked();
    struct box_session *second = open_session("second");
    assert_true(packet_send(init_fd, &reply, sizeof reply, NULL, 0, 0) > 0);
    assert_int_equal(loop_step(box.loop, 1000), 0);
    struct wire_request sweep = asked(WIRE_KILL_TAG);
    assert_int_equal(sweep.tag, second->tag);
    (void)asked(WIRE_PAIR); /* the next one may have more luck */
    answer(&sweep, 0);
    assert_int_equal(ended, 1);
    assert_int_equal(end.kind, BOX_END_LOST);
}

/* pid 1's silence is not the zygote's fault. */
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

/* Whoever asks waits for the one that takes over, and asks that. */
static void one_that_is_dying_goes_nowhere(void **)
{
    pairs_are_asked();
    say_hello();
    struct wire_request watch = asked(WIRE_WATCH);
    answer(&watch, 0);
    assert_int_equal(box_session_restore(session, 1), -ENOENT);
    box_session_kill(session);
    assert_int_equal(box_session_restore(session, 1), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_interpreter_that_says_hello_is_waited_for_no_longer),
        TEST(a_zygote_that_hangs_is_killed_and_its_end_ends_the_session),
        TEST(an_interpreter_without_a_domain_of_its_own_is_refused),
        TEST(an_interpreter_that_is_not_there_ends_the_session),
        TEST(a_socket_pair_in_advance_is_not_waited_for),
        TEST(sessions_that_wait_for_a_pair_begin_in_their_order),
        TEST(sessions_wait_for_a_new_zygote),
        TEST(without_a_pair_the_session_that_waits_is_lost),
        TEST(a_session_that_waits_too_long_is_lost),
        TEST(one_that_is_dying_goes_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
