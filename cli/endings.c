#include "cli/endings.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/conn.h"

static void on_signal(void *arg, uint32_t)
{
    struct endings *endings = arg;
    struct signalfd_siginfo info;
    if (read(endings->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        log_info("cli", "signal %u", info.ssi_signo);
    }
    loop_stop(endings->loop, 0);
}

static void on_parent(void *arg, uint32_t)
{
    struct endings *endings = arg;
    log_info("cli", "the parent has ended");
    loop_stop(endings->loop, 0);
}

int endings_signal_fd(void)
{
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0) {
        return -errno;
    }
    int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int watch_signals(struct endings *endings)
{
    endings->signal_fd = endings_signal_fd();
    return endings->signal_fd < 0 ? endings->signal_fd
                                  : loop_io_add(endings->loop, &endings->signals,
                                                endings->signal_fd, EPOLLIN, on_signal, endings);
}

/* Whose parent is a service manager or another pid namespace's process has none that could leave it. */
static int watch_parent(struct endings *endings, pid_t parent)
{
    if (parent <= 1) {
        return 0;
    }
    endings->parent_fd =
        (int)syscall(SYS_pidfd_open, parent, 0); /* closes on exec: pidfd_open(2) */
    if (endings->parent_fd < 0) {
        /* Gone before the call, or a kernel or filter without it: then stdin has to end. */
        return errno == ESRCH ? -ESRCH : 0;
    }
    if (getppid() != parent) {
        return -ESRCH;
    }
    return loop_io_add(endings->loop, &endings->parent, endings->parent_fd, EPOLLIN, on_parent,
                       endings);
}

int endings_watch(struct endings *endings, struct loop *loop, pid_t parent)
{
    endings->loop = loop;
    int r = watch_signals(endings);
    if (r < 0) {
        return r;
    }
    r = watch_parent(endings, parent);
    if (r == -ESRCH) {
        on_parent(endings, 0);
        r = 0;
    }
    return r;
}

static void on_idle(void *arg)
{
    struct endings *endings = arg;
    uint64_t quiet_ms = rpc_conn_quiet_ms(endings->conn);
    if (quiet_ms >= endings->idle_ms) {
        log_info("cli", "nothing was asked for %llu s", (unsigned long long)(quiet_ms / 1000));
        loop_stop(endings->loop, 0);
        return;
    }
    loop_timer_arm(endings->loop, &endings->idle,
                   clock_now_ns() + (endings->idle_ms - quiet_ms) * CLOCK_NS_PER_MS, on_idle,
                   endings);
}

void endings_watch_idle(struct endings *endings, const struct rpc_conn *conn, uint64_t idle_ms)
{
    endings->conn = conn;
    endings->idle_ms = idle_ms;
    on_idle(endings);
}

void endings_done(struct endings *endings)
{
    loop_timer_disarm(&endings->idle);
    loop_io_remove(&endings->signals);
    loop_io_remove(&endings->parent);
    drop_fd(&endings->signal_fd);
    drop_fd(&endings->parent_fd);
}
