#include <errno.h>
#include <unistd.h>

#include "sandbox/init/init.h"

/* In the child. Any step that does not work ends it: never go on half-confined. The exit code is
 * the number of the step, so that the server can name it. */
__attribute__((noreturn)) static void zygote_child(const struct init *init, int control_fd)
{
    enum wire_step failed = confine(init, control_fd);
    if (failed != WIRE_STEP_NONE) {
        _exit((int)failed);
    }
    (void)execve(init->argv[0], init->argv, init->envp);
    _exit(errno == ENOENT ? WIRE_STEP_FIND : WIRE_STEP_EXECUTE);
}

pid_t zygote_start(struct init *init, int control_fd)
{
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        zygote_child(init, control_fd);
    }
    return pid;
}
