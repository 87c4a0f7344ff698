#include "sandbox/programs/common/processes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { CASE_S = 120, FORKS = 1000 };

/* Each case runs in a child, because the test program must not be the subreaper that kills its
 * tree. */
static void in_child(bool (*check)(void))
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        (void)alarm(CASE_S);
        _exit(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && check() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

/* A process in a process session of its own, whose parent has exited. */
static pid_t orphan(void)
{
    pid_t pid = 0;
    int ends[2];
    if (pipe(ends) < 0) {
        return -1;
    }
    pid_t between = fork();
    if (between == 0) {
        (void)setsid();
        pid = sleeper();
        _exit(write(ends[1], &pid, sizeof pid) != sizeof pid);
    }
    if (read(ends[0], &pid, sizeof pid) != sizeof pid || waitpid(between, NULL, 0) != between) {
        pid = -1;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    return pid;
}

typedef const pid_t *list_function(pid_t root);

static bool is_named(pid_t pid, list_function list)
{
    const pid_t *pids = list(getpid());
    while (*pids && *pids != pid) {
        pids++;
    }
    return *pids;
}

static bool is_listed(pid_t pid)
{
    return is_named(pid, process_tree_list);
}

static void *fork_sleeper(void *ret_pid)
{
    *(pid_t *)ret_pid = sleeper();
    (void)pause(); /* its parent is this thread */
    return NULL;
}

/* A process whose only child was started by its second thread. */
static pid_t threads_child(void)
{
    int ends[2];
    pid_t pid = 0;
    if (pipe(ends) < 0) {
        return -1;
    }
    if (fork() == 0) {
        pthread_t thread;
        bool begun = pthread_create(&thread, NULL, fork_sleeper, &pid) == 0;
        while (begun && *(volatile pid_t *)&pid == 0) {
            (void)usleep(1000);
        }
        (void)!write(ends[1], &pid, sizeof pid);
        (void)pause();
    }
    if (read(ends[0], &pid, sizeof pid) != sizeof pid) {
        pid = -1;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    return pid;
}

static bool a_glance_sees_them(void)
{
    pid_t child = sleeper();
    pid_t lost = orphan();
    pid_t below = threads_child();
    bool seen = is_named(child, process_tree_glance) && is_named(lost, process_tree_glance) &&
                is_named(below, process_tree_glance);
    bool unrelated =
        is_named(getppid(), process_tree_glance) || is_named(getpid(), process_tree_glance);
    return seen && !unrelated && process_tree_kill(getpid());
}

static void a_quick_look_sees_descendants_only(void **)
{
    in_child(a_glance_sees_them);
}

static bool children_and_orphans_belong(void)
{
    pid_t child = sleeper();
    pid_t lost = orphan();
    bool belong = is_listed(child) && is_listed(lost) && process_tree_has(getpid(), child) &&
                  process_tree_has(getpid(), lost);
    bool unrelated = is_listed(getppid()) || process_tree_has(getpid(), getppid()) ||
                     is_listed(getpid()) || process_tree_has(getpid(), 1);
    return belong && !unrelated && process_tree_kill(getpid());
}

static void only_descendants_belong(void **)
{
    in_child(children_and_orphans_belong);
}

static bool ended_is_not_listed(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    siginfo_t info;
    bool ended = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0;
    return ended && !is_listed(pid) && process_tree_kill(getpid());
}

static void exited_processes_are_left_out(void **)
{
    in_child(ended_is_not_listed);
}

static void *stay(void *)
{
    for (;;) {
        (void)pause();
    }
    return NULL;
}

static bool leaderless_is_listed(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, stay, NULL) != 0) {
            _exit(1);
        }
        (void)syscall(SYS_exit, 0);
    }
    char path[32];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (!strstr(text, ") Z ")) { /* alarm(2) ends a futile wait */
        FILE *file = fopen(path, "re");
        bool read = file && fgets(text, sizeof text, file);
        if (file) {
            (void)fclose(file);
        }
        if (!read) {
            return false;
        }
    }
    return is_listed(pid) && process_tree_has(getpid(), pid) && process_tree_kill(getpid());
}

static void a_process_without_its_first_thread_belongs(void **)
{
    in_child(leaderless_is_listed);
}

/* Forks, leaves the process session and exits, in a loop. What has exited is reaped at the end: on
 * a busy machine a loop without end would take all process ids. */
__attribute__((noreturn)) static void flee(void)
{
    for (unsigned forks = 0; fork() == 0 && forks < FORKS; forks++) {
        (void)setsid();
    }
    _exit(0);
}

static bool fleeing_are_ended(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (fork() == 0) {
            flee();
        }
    }
    (void)orphan();
    bool gone = process_tree_kill(getpid());
    return gone && waitpid(-1, NULL, 0) < 0 && errno == ECHILD;
}

static void no_process_escapes_by_forking(void **)
{
    in_child(fleeing_are_ended);
}

static bool unrelated_survives(void)
{
    pid_t child = sleeper();
    (void)process_tree_kill(getpid());
    return kill(child, 0) < 0 && errno == ESRCH && kill(getppid(), 0) == 0;
}

static void unrelated_processes_are_left_alone(void **)
{
    pid_t other = sleeper();
    in_child(unrelated_survives);
    assert_int_equal(waitpid(other, NULL, WNOHANG | WUNTRACED), 0);
    (void)kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_descendants_belong),
        cmocka_unit_test(a_quick_look_sees_descendants_only),
        cmocka_unit_test(exited_processes_are_left_out),
        cmocka_unit_test(a_process_without_its_first_thread_belongs),
        cmocka_unit_test(no_process_escapes_by_forking),
        cmocka_unit_test(unrelated_processes_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
