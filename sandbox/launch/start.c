#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/host/idmap.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/plan.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/packet.h"

const struct launched launch_none = {.pidfd = -1, .go_fd = -1, .error_fd = -1};

static pid_t clone_child(struct launched *child, const struct child_setup *setup, int group_fd)
{
    const unsigned long flags = setup->plan->namespaces | CLONE_PIDFD;
    int pidfd = -1;
    pid_t pid = -1;
    if (group_fd >= 0) {
        struct clone_args args = {.flags = flags | CLONE_INTO_CGROUP,
                                  .pidfd = (uint64_t)(uintptr_t)&pidfd,
                                  .exit_signal = SIGCHLD,
                                  .cgroup = (uint64_t)group_fd};
        pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
        child->in_group = pid > 0;
    }
    if (pid < 0) {
        /* The raw call, because glibc's clone wants a separate stack. Otherwise like fork(2). */
        pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, &pidfd, NULL, NULL);
    }
    if (pid == 0) {
        child_main(setup);
    }
    if (pid > 0) {
        child->pid = pid;
        child->pidfd = pidfd;
    }
    return pid;
}

static int map_ids(pid_t pid, const struct plan *plan, struct fail *ret_fail)
{
    const struct idmap idmap = {.disk_uid = PLAN_INSIDE_ID,
                                .disk_gid = PLAN_INSIDE_ID,
                                .outside_uid = plan->outside_uid,
                                .outside_gid = plan->outside_gid};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
    int r = fd_write_text_at(AT_FDCWD, path, "deny");
    r = r ? r : idmap_write(pid, &idmap);
    return r < 0 ? fail_set(ret_fail, -r, "cannot map the sandbox's ids") : 0;
}

int launch_go(const struct launched *child, int memory_fd, const char *whose, struct fail *ret_fail)
{
    const char go = 1;
    ssize_t sent = packet_send(child->go_fd, &go, 1, &memory_fd, memory_fd >= 0, 0);
    return sent == 1 ? 0 : fail_set(ret_fail, EPIPE, "%s's child", whose);
}

int launch_start(struct launched *ret_child, struct child_setup *setup, int group_fd,
                 const char *whose, struct fail *ret_fail)
{
    const struct plan *plan = setup->plan;
    defer_close int go_fd = -1;
    defer_close int error_fd = -1;
    int go[2] = {-1, -1};
    int r = fd_socketpair(SOCK_STREAM, go);
    ret_child->go_fd = go[0];
    go_fd = go[1];
    r = r ? r : fd_pipe(&ret_child->error_fd, &error_fd);
    if (r < 0) {
        return fail_set(ret_fail, -r, "%s's descriptors", whose);
    }
    cap_t none = cap_init();
    if (!none) {
        return fail_set(ret_fail, ENOMEM, "capabilities");
    }
    setup->no_capabilities = none;
    setup->go_fd = go_fd;
    setup->error_fd = error_fd;
    pid_t pid = clone_child(ret_child, setup, group_fd);
    int error = errno;
    (void)cap_free(none);
    if (pid < 0) {
        return fail_set(ret_fail, error, "cannot create %s for %s",
                        plan->namespaces ? "namespaces" : "a process", whose);
    }
    r = plan->namespaces ? map_ids(pid, plan, ret_fail) : 0;
    return r < 0 ? r : launch_go(ret_child, /* memory_fd= */ -1, whose, ret_fail);
}

void launch_end(struct launched *child)
{
    program_kill(&child->pid);
    drop_fd(&child->pidfd);
    drop_fd(&child->go_fd);
    drop_fd(&child->error_fd);
}
