#include "sandbox/host/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"

bool helper_is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool helper_find(const char *directories, const char *name, char path[PATH_MAX])
{
    for (const char *at = directories; *at; at += *at == ':') {
        int size = (int)strcspn(at, ":");
        if (*at == '/' && snprintf(path, PATH_MAX, "%.*s/%s", size, at, name) < PATH_MAX &&
            helper_is_program(path)) {
            return true;
        }
        at += size;
    }
    return false;
}

/* Runs in the child. */
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
    (void)signal(SIGPIPE, SIG_DFL); /* the server ignores it, and execve(2) would pass that on */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (ready) {
        (void)execve(path, argv, envp);
    }
    _exit(127);
}

/* Uses fork(2): some containers refuse the clone3 of posix_spawn(3) with EPERM, and then the
 * library tries no other call. */
int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                 pid_t *ret_pid, int *ret_fd)
{
    defer_close int said_fd = -1;
    defer_close int program_fd = -1;
    int r = access(path, X_OK) < 0 ? -errno : fd_pipe(&said_fd, &program_fd);
    r = r ? r : fd_set_nonblock(said_fd, true);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(path, argv, envp, stream, program_fd);
    }
    if (pid < 0) {
        return -errno;
    }
    *ret_pid = pid;
    *ret_fd = take_fd(&said_fd);
    return 0;
}

void helper_end(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL); /* the child may not have called setsid(2) yet */
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}
