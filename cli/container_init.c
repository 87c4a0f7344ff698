#include "cli/container_init.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"

/* signals: all of them, blocked, so that none is lost. A blocked signal stays pending also for pid
 * 1, which ignores signals without a handler (sig_ignored() in the kernel's signal.c). */
static _Noreturn void look_after(pid_t server, const sigset_t *signals)
{
    const struct timespec rest = {.tv_sec = LIMIT_CONTAINER_INIT_REST_S};
    bool ended = false;
    int code = 0;
    (void)prctl(PR_SET_NAME, "container-init");
    /* Only the server may hold these: the client must see its output end when it exits. */
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    for (;;) {
        siginfo_t info;
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == server) {
            ended = true;
            code =
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); /* as a shell */
        }
        if (pid < 0) { /* no process is left */
            _exit(code);
        }
        int number = pid > 0 ? 0 : sigtimedwait(signals, &info, ended ? &rest : NULL);
        if (number < 0 && errno == EAGAIN) {
            _exit(code);
        }
        /* A terminal's signals reach the whole process group, so the server gets them too. */
        if (number > 0 && number != SIGCHLD && !ended && info.si_code != SI_KERNEL) {
            (void)kill(server, number);
        }
    }
}

void container_init(void)
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
