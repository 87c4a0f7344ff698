#include "sandbox/start/sweeper.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

enum { SWEEP_MS = 250 };

void sweeper_poke(const struct sweeper *sweeper)
{
    (void)write(sweeper->fd, "", 1);
}

bool sweeper_finish(struct sweeper *sweeper)
{
    int status = 0;
    drop_fd(&sweeper->fd);
    defer_close int pidfd = (int)syscall(SYS_pidfd_open, sweeper->pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    if (pidfd < 0 || poll(&ended, 1, SWEEP_MS) != 1) {
        return true;
    }
    return waitpid(sweeper->pid, &status, 0) < 0 || status == 0;
}
