#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
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

void zygote_start(struct init *init, const struct wire_request *request)
{
    const int on = 1;
    int ends[2];
    struct wire_reply reply = {.event = WIRE_ANSWER, .id = request->id};
    int r = fd_socketpair(SOCK_STREAM, ends);
    if (r < 0) {
        init_answer(request->id, -r);
        return;
    }
    /* Before the first word: it is the kernel's that says whose it is. */
    (void)setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    reply.pid = fork();
    if (reply.pid == 0) {
        zygote_child(init, ends[1]);
    }
    if (reply.pid > 0) {
        init->zygote = reply.pid;
    } else {
        reply.error = errno;
        reply.pid = 0;
    }
    init_send(&reply, ends[0]);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
