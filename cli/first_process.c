#include "cli/first_process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"

/* What a shell would show for it. */
static int shown_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reaps whoever has ended. True when nobody is left; *ret_status is written when the server was among them. */
static bool reap(pid_t server, bool *ended, int *ret_status)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == server) {
            *ended = true;
            *ret_status = shown_status(status);
        }
    }
    return pid < 0 && errno == ECHILD;
}

/* signals: all of them, blocked, so that none is lost: also to a first process, which ignores what it has no handler
 * for, a blocked signal stays pending (sig_ignored() in the kernel's signal.c). */
static _Noreturn void look_after(pid_t server, const sigset_t *signals)
{
    /* The host sees the end of the server's output when the server ends. */
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);

    const struct timespec rest = {.tv_sec = LIMIT_FIRST_PROCESS_REST_S};
    bool ended = false;
    int status = 0;
    while (!reap(server, &ended, &status)) {
        siginfo_t info;
        int number = sigtimedwait(signals, &info, ended ? &rest : NULL);
        if (number < 0 && errno == EAGAIN) {
            break;
        }
        /* A terminal's signals reach the whole group, the server too. */
        if (number > 0 && number != SIGCHLD && !ended && info.si_code != SI_KERNEL) {
            (void)kill(server, number);
        }
    }
    _exit(status);
}

void first_process(void)
{
    if (getpid() != 1) {
        return;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (sigprocmask(SIG_BLOCK, &all, &before) < 0) {
        return;
    }
    pid_t server = fork();
    if (server > 0) {
        look_after(server, &all);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}
