#include "cli/shutdown.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "rpc/conn.h"
#include "tools/tools.h"

static void on_signal(void *arg, uint32_t)
{
    struct shutdown *shutdown = arg;
    struct signalfd_siginfo info;
    if (read(shutdown->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        log_info("cli", "signal %u", info.ssi_signo);
        shutdown->why = "a signal";
    }
    loop_stop(shutdown->loop, 0);
}

static void on_parent(void *arg, uint32_t)
{
    struct shutdown *shutdown = arg;
    log_info("cli", "the parent process exited");
    shutdown->why = "the parent process exited";
    loop_stop(shutdown->loop, 0);
}

int shutdown_watch_signals(struct loop *loop, struct loop_io *io, int *ret_fd, loop_io_fn fn,
                           void *arg)
{
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0) {
        return -errno;
    }
    *ret_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return *ret_fd < 0 ? -errno : loop_io_add(loop, io, *ret_fd, EPOLLIN, fn, arg);
}

/* A parent that is a service manager, or a process of another pid namespace, cannot leave the
 * server behind. */
static int watch_parent(struct shutdown *shutdown, pid_t parent)
{
    if (parent <= 1) {
        return 0;
    }
    shutdown->parent_fd =
        (int)syscall(SYS_pidfd_open, parent, 0); /* close-on-exec: pidfd_open(2) */
    if (shutdown->parent_fd < 0) {
        /* The parent is gone, or the kernel or a filter refuses: then only the end of stdin
         * remains. */
        return errno == ESRCH ? -ESRCH : 0;
    }
    if (getppid() != parent) {
        return -ESRCH;
    }
    return loop_io_add(shutdown->loop, &shutdown->parent, shutdown->parent_fd, EPOLLIN, on_parent,
                       shutdown);
}

int shutdown_watch(struct shutdown *shutdown, struct loop *loop, pid_t parent)
{
    shutdown->loop = loop;
    int r =
        shutdown_watch_signals(loop, &shutdown->signals, &shutdown->signal_fd, on_signal, shutdown);
    if (r < 0) {
        return r;
    }
    r = watch_parent(shutdown, parent);
    if (r == -ESRCH) {
        on_parent(shutdown, 0);
        r = 0;
    }
    return r;
}

static void on_idle(void *arg)
{
    struct shutdown *shutdown = arg;
    uint64_t quiet_ms = rpc_conn_quiet_ms(shutdown->conn);
    uint64_t jobless_ms = tools_quiet_ms(shutdown->tools);
    quiet_ms = quiet_ms < jobless_ms ? quiet_ms : jobless_ms;
    if (quiet_ms >= shutdown->idle_ms) {
        log_info("cli", "no request for %llu s", (unsigned long long)(quiet_ms / 1000));
        shutdown->why = "no request (--idle-exit)";
        loop_stop(shutdown->loop, 0);
        return;
    }
    loop_timer_in(shutdown->loop, &shutdown->idle, shutdown->idle_ms - quiet_ms, on_idle, shutdown);
}

void shutdown_watch_idle(struct shutdown *shutdown, const struct rpc_conn *conn,
                         const struct tools *tools, uint64_t idle_ms)
{
    shutdown->conn = conn;
    shutdown->tools = tools;
    shutdown->idle_ms = idle_ms;
    on_idle(shutdown);
}

void shutdown_done(struct shutdown *shutdown)
{
    loop_timer_disarm(&shutdown->idle);
    loop_io_remove(&shutdown->signals);
    loop_io_remove(&shutdown->parent);
    drop_fd(&shutdown->signal_fd);
    drop_fd(&shutdown->parent_fd);
}
