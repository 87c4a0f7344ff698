#include "sandbox/start/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child. */
static _Noreturn void become(const char *path, char *const argv[], char *const envp[], int stream,
                             int pipe_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ready = null >= 0 && setsid() >= 0 && chdir("/") == 0;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        ready = ready && dup2(fd == stream ? pipe_fd : null, fd) == fd;
    }
    (void)signal(SIGPIPE, SIG_DFL); /* ignored by the server; execve(2) would hand that on */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (ready) {
        (void)execve(path, argv, envp);
    }
    _exit(127);
}

/* fork(2) and not posix_spawn(3), whose clone3 some containers refuse by EPERM: the library then takes no other
 * call in its place. */
int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                 pid_t *ret_pid, int *ret_fd)
{
    int said[2];
    if (access(path, X_OK) < 0 || pipe2(said, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(path, argv, envp, stream, said[1]);
    }
    int error = errno;
    (void)close(said[1]);
    if (pid < 0 || fcntl(said[0], F_SETFL, O_NONBLOCK) < 0) {
        (void)close(said[0]);
        helper_end(pid);
        return -error;
    }
    *ret_pid = pid;
    *ret_fd = said[0];
    return 0;
}

void helper_end(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL); /* it may not have made its session yet */
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}
