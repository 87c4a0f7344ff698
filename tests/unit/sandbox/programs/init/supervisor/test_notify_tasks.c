/* Forks are counted, signals stay within the process tree, and callers may be many, die while they
 * wait, or get no response. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/programs/init/supervisor/notify.h"
#include "tests/unit/guest.h"
#include "tests/unit/unit.h"

enum { TASKS = 12 };

/* --- many callers, and callers that do not wait for the response --- */

static void *change_often(void *)
{
    for (unsigned i = 0; i < 50; i++) {
        EXPECT(chmod("many", 0600 | (i & 077)) == 0);
    }
    (void)__atomic_add_fetch(&shared->count, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void ask_from_many_threads(void)
{
    enum { THREADS = 100 };
    pthread_t threads[THREADS];
    guest_file("many");
    shared->count = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        EXPECT(pthread_create(&threads[i], NULL, change_often, NULL) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    EXPECT(shared->count == THREADS);
}

static void many_threads_get_their_results(void **)
{
    guest_run(&guest_new, &guest_settings, ask_from_many_threads, 0);
}

static void kill_those_who_ask(void)
{
    guest_file("dying");
    for (unsigned i = 0; i < 200; i++) {
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0) {
            for (;;) {
                (void)chmod("dying", 0600);
                (void)chmod("dying", 0640);
            }
        }
        (void)usleep(i * 10);
        EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    }
    EXPECT(chmod("dying", 0644) == 0);
}

static void a_killed_caller_leaves_no_call_pending(void **)
{
    guest_run(&guest_new, &guest_settings, kill_those_who_ask, 0);
}

static void on_alarm(int)
{
    shared->count++;
}

static void ask_under_signals(void)
{
    const struct itimerval often = {{0, 200}, {0, 200}};
    guest_file("signals");
    (void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART},
                    NULL);
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (unsigned i = 0; i < 2000; i++) {
        EXPECT(chmod("signals", 0600 | (i & 077)) == 0);
    }
    EXPECT(setitimer(ITIMER_REAL, &(struct itimerval){}, NULL) == 0);
    EXPECT(shared->count > 0);
}

/* Nor is a call made twice: while it is being handled only a fatal signal interrupts it. */
static void signals_do_not_interrupt(void **)
{
    guest_run(&guest_new, &guest_settings, ask_under_signals, 0);
}

/* --- forks and signals --- */

static void fork_many(void)
{
    unsigned forked = 0;
    for (unsigned i = 0; i < 3 * TASKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)pause();
        }
        EXPECT(pid > 0 || errno == EAGAIN);
        forked += pid > 0;
    }
    EXPECT(forked == TASKS - 1);
    EXPECT(kill(0, SIGTERM) == 0);
}

static void no_more_tasks_than_allowed(void **)
{
    struct notify_settings with = guest_settings;
    with.tasks_max = TASKS;
    guest_run(&guest_new, &with, fork_many, SIGTERM); /* as in waitpid(2) */
}

static void *do_nothing(void *)
{
    while (!shared->stop) {
        (void)usleep(1000);
    }
    return NULL;
}

static void start_threads(void)
{
    enum { TRIES = 10000 };
    pthread_t threads[3 * TASKS];
    unsigned started = 0;
    shared->stop = 0;
    for (unsigned i = 0; i < 3 * TASKS; i++) {
        started += pthread_create(&threads[started], NULL, do_nothing, NULL) == 0;
    }
    EXPECT(started == TASKS - 1);
    shared->stop = 1;
    for (unsigned i = 0; i < started; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    /* Exited threads have made space, but the next count at the limit is some time later. */
    for (unsigned i = 0; i < TRIES && shared->count <= TASKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(0);
        }
        EXPECT(pid > 0 || errno == EAGAIN);
        EXPECT(pid < 0 ? usleep(1000) == 0 : waitpid(pid, NULL, 0) == pid);
        shared->count += pid > 0;
    }
    EXPECT(shared->count > TASKS);
}

static void threads_count_until_they_exit(void **)
{
    struct notify_settings with = guest_settings;
    with.tasks_max = TASKS;
    guest_run(&guest_new, &with, start_threads, 0);
}

static void *signal_oneself(void *arg)
{
    pid_t first = *(pid_t *)arg;
    pid_t self = (pid_t)syscall(SYS_gettid);
    EXPECT(syscall(SYS_tkill, self, SIGRTMIN) == 0);
    EXPECT(syscall(SYS_tkill, first, SIGRTMIN) == 0);
    EXPECT(syscall(SYS_tgkill, getpid(), first, SIGRTMIN) == 0);
    return NULL;
}

static void on_signal(int)
{
    (void)__atomic_add_fetch(&shared->count, 1, __ATOMIC_RELAXED);
}

static int signal_of(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static pid_t sleeper(void)
{
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        (void)sigaction(SIGRTMIN, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* Real-time signals, because none of them merges with another, signal(7). */
static void send_signals(void)
{
    pthread_t thread;
    int status = 0;
    pid_t self = getpid();
    siginfo_t info = {.si_code = SI_QUEUE};
    (void)sigaction(SIGRTMIN, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART},
                    NULL);
    EXPECT(raise(SIGRTMIN) == 0 && kill(self, SIGRTMIN) == 0);
    EXPECT(pthread_create(&thread, NULL, signal_oneself, &self) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(syscall(SYS_rt_sigqueueinfo, self, SIGRTMIN, &info) == 0);
    EXPECT(shared->count == 6);

    pid_t child = sleeper();
    EXPECT(kill(child, 0) == 0 && kill(child, SIGTERM) == 0);
    EXPECT(waitpid(child, &status, 0) == child && signal_of(status) == SIGTERM);
    EXPECT_ERROR(kill(child, 0), ESRCH);
    child = sleeper();
    EXPECT(syscall(SYS_tgkill, child, child, SIGTERM) == 0);
    EXPECT(waitpid(child, &status, 0) == child && signal_of(status) == SIGTERM);
    child = sleeper();
    EXPECT(syscall(SYS_rt_sigqueueinfo, child, SIGTERM, &info) == 0);
    EXPECT(waitpid(child, &status, 0) == child && signal_of(status) == SIGTERM);
    child = sleeper();
    EXPECT(setpgid(child, child) == 0 && kill(-child, SIGTERM) == 0);
    EXPECT(waitpid(child, &status, 0) == child && signal_of(status) == SIGTERM);
    child = sleeper();
    EXPECT(kill(-1, SIGTERM) == 0);
    EXPECT(waitpid(child, &status, 0) == child && signal_of(status) == SIGTERM);
    /* A zombie. */
    child = fork();
    if (child == 0) {
        _exit(0);
    }
    EXPECT(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && kill(child, SIGTERM) == 0);
    EXPECT(waitpid(child, NULL, 0) == child);
}

static void own_processes_get_signals(void **)
{
    guest_run(&guest_old, &guest_settings, send_signals, 0);
}

static pid_t unrelated;

static void signal_unrelated(void)
{
    siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_QUEUE};
    pid_t above = getppid();
    const pid_t others[] = {1, above, unrelated};
    for (unsigned i = 0; i < 3; i++) {
        pid_t pid = others[i];
        EXPECT_ERROR(kill(pid, 0), EPERM);
        EXPECT_ERROR(kill(pid, SIGTERM), EPERM);
        EXPECT_ERROR(syscall(SYS_tkill, pid, SIGTERM), EPERM);
        EXPECT_ERROR(syscall(SYS_tgkill, pid, pid, SIGTERM), EPERM);
        EXPECT_ERROR(syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &info), EPERM);
        EXPECT_ERROR(syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGTERM, &info), EPERM);
    }
    EXPECT_ERROR(kill(-getpgid(above), SIGTERM), ESRCH);
    EXPECT_ERROR(kill(INT_MIN, SIGTERM), ESRCH);
    EXPECT_ERROR(kill(-1, SIGTERM), ESRCH);
}

/* The unrelated process is the test itself, seen by a grandchild that left the tree before. */
static void unrelated_processes_get_no_signal(void **)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    pid_t middle = fork();
    if (middle == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
            guest_mark(GUEST_TAG); /* the same tag as in another sandbox, by chance */
            (void)poll(NULL, 0, 20000);
            _exit(0);
        }
        (void)write(fds[1], &pid, sizeof pid);
        _exit(0);
    }
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    assert_int_equal(read(fds[0], &unrelated, sizeof unrelated), sizeof unrelated);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    guest_run(&guest_old, &guest_settings, signal_unrelated, 0);
    assert_int_equal(kill(unrelated, 0), 0);
    assert_int_equal(kill(unrelated, SIGKILL), 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void signal_another_session(void)
{
    siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_QUEUE};
    int status = 0;
    EXPECT_ERROR(kill(unrelated, 0), EPERM);
    EXPECT_ERROR(kill(unrelated, SIGKILL), EPERM);
    EXPECT_ERROR(kill(-unrelated, SIGKILL), EPERM);
    EXPECT_ERROR(kill(-1, SIGKILL), EPERM);
    EXPECT_ERROR(syscall(SYS_tkill, unrelated, SIGKILL), EPERM);
    EXPECT_ERROR(syscall(SYS_tgkill, unrelated, unrelated, SIGKILL), EPERM);
    EXPECT_ERROR(syscall(SYS_rt_sigqueueinfo, unrelated, SIGKILL, &info), EPERM);
    /* A lowered tag belongs to no session. */
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {GUEST_TAG - 1, GUEST_TAG - 1};
        EXPECT(setrlimit(RLIMIT_MSGQUEUE, &limit) == 0);
        EXPECT_ERROR(kill(unrelated, SIGKILL), EPERM);
        EXPECT_ERROR(kill(getppid(), 0), EPERM);
        EXPECT(kill(getpid(), 0) == 0);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    shared->stop = 1;
}

static void other_sessions_get_no_signal(void **)
{
    shared->stop = 0;
    unrelated = fork();
    if (unrelated == 0) {
        EXPECT(setsid() > 0);
        guest_mark(GUEST_TAG - 1);
        for (unsigned i = 0; i < 60000 && !shared->stop; i++) {
            (void)usleep(1000);
        }
        _exit(0);
    }
    while (getpgid(unrelated) != unrelated) {
        (void)usleep(1000);
    }
    guest_run(&guest_old, &guest_settings, signal_another_session, 0);
}

static void ask_once(void)
{
    guest_file("frozen");
    shared->count = 1;
    EXPECT(chmod("frozen", 0611) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    EXPECT(pid > 0 && waitpid(pid, NULL, 0) == pid);
    shared->count = 2;
}

/* No caller continues without a response; and no caller is left after a kill. */
static void a_waiting_caller_can_be_killed(void **)
{
    struct filter_program filter;
    int status = 0;
    guest_open(&guest_new, &guest_settings, &filter);
    pid_t pid = guest_start(&filter, ask_once);
    struct pollfd fd = {.fd = guest_notify.fd, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1);
    assert_int_equal(shared->count, 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    notify_serve(&guest_notify, 0); /* the caller is gone, and the listener's end is noticed */
    assert_int_equal(poll(&fd, 1, 0), 0);
    guest_close(&filter);
}

/* The caller's number may belong to an unrelated process by this time. */
static void only_callers_are_inspected(void **)
{
    struct filter_program filter;
    struct epoll_event event;
    guest_open(&guest_new, &guest_settings, &filter);
    pid_t pid = guest_start(&filter, ask_once);
    assert_int_equal(epoll_wait(guest_notify.fd, &event, 1, -1), 1);
    const struct notify_call call = {
        .notify = &guest_notify, .listener_fd = event.data.fd, .id = 1, .tid = pid};
    assert_false(notify_is_asked(&call));
    assert_int_equal(caller_look(&call, "cwd", O_PATH), -ESRCH);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    notify_serve(&guest_notify, 0);
    guest_close(&filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_get_their_results),
        cmocka_unit_test(a_killed_caller_leaves_no_call_pending),
        cmocka_unit_test(signals_do_not_interrupt),
        cmocka_unit_test(no_more_tasks_than_allowed),
        cmocka_unit_test(threads_count_until_they_exit),
        cmocka_unit_test(own_processes_get_signals),
        cmocka_unit_test(unrelated_processes_get_no_signal),
        cmocka_unit_test(other_sessions_get_no_signal),
        cmocka_unit_test(a_waiting_caller_can_be_killed),
        cmocka_unit_test(only_callers_are_inspected),
    };
    return cmocka_run_group_tests(tests, guest_make_all, guest_remove_all);
}
