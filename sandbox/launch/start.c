#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/idmap.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/plan.h"
#include "sandbox/programs/program.h"

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

int launch_go(const struct launched *child, const char *whose, struct fail *ret_fail)
{
    const char go = 1;
    return write(child->go_fd, &go, 1) == 1 ? 0 : fail_set(ret_fail, EPIPE, "%s's child", whose);
}

int launch_start(struct launched *ret_child, struct child_setup *setup, int group_fd,
                 const char *whose, struct fail *ret_fail)
{
    const struct plan *plan = setup->plan;
    defer_close int go_fd = -1;
    defer_close int error_fd = -1;
    int r = fd_pipe(&go_fd, &ret_child->go_fd);
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
    return r < 0 ? r : launch_go(ret_child, whose, ret_fail);
}

void launch_end(struct launched *child)
{
    program_kill(&child->pid);
    drop_fd(&child->pidfd);
    drop_fd(&child->go_fd);
    drop_fd(&child->error_fd);
}

/* The child's report is one write, or none if every step succeeded. */
static bool plan_works(const struct plan *plan, struct fail *ret_fail)
{
    struct launched child = launch_none;
    struct child_setup setup = {.plan = plan, .init_fd = -1, .config_fd = -1, .program_fd = -1};
    struct fail fail = {};
    bool works = launch_start(&child, &setup, -1, "the sandbox", ret_fail) == 0;
    if (works) {
        (void)launch_go(&child, "the sandbox", NULL); /* there is no group to join */
        works = read(child.error_fd, &fail, sizeof fail) != (ssize_t)sizeof fail;
        *ret_fail = fail;
    }
    launch_end(&child);
    return works;
}

/* Whether a sandbox with namespaces can be made here. A child builds a root by the steps of a plan,
 * and exits. Blocks for some milliseconds. This does not replace the self-test, which every sandbox
 * runs itself. */
static bool namespace_check_passes(void)
{
    struct fail fail = {};
    struct host_facts facts;
    defer_free struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return false;
    }
    host_facts_read(NULL, &facts);
    plan_build_namespace_check(&facts, plan);
    bool works = plan_works(plan, &fail);
    if (!works) {
        char text[FAIL_TEXT + 128];
        log_info("sandbox", "no namespaces: %s", fail_describe(&fail, text, sizeof text));
    }
    plan_done(plan);
    return works;
}

void namespace_check_resolve(struct box_spec *spec)
{
    bool unresolved = spec->isolation == BOX_ISOLATION_BEST;
    spec->isolation = level_choose(spec->isolation, unresolved && namespace_check_passes());
}

static int monitor_spawn(struct box *box)
{
    char number[16];
    char limit[24];
    const char *const argv[] = {"sandpiper-monitor", number, limit, NULL};
    bool counted = cgroup_has(&box->cgroup, CGROUP_MEMORY);
    int ends[2];
    (void)snprintf(number, sizeof number, "%d", (int)box->child.pid);
    (void)snprintf(limit, sizeof limit, "%llu",
                   counted ? 0ULL : (unsigned long long)box->spec->limits.memory_bytes);
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    if (r < 0) {
        return r;
    }
    defer_close int ours = ends[0];
    defer_close int theirs = ends[1];
    pid_t pid = program_spawn(argv, theirs);
    if (pid < 0) {
        return pid;
    }
    box->monitor_pid = pid;
    return init_client_start(&box->monitor, box->loop, take_fd(&ours));
}

int monitor_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request zygote = {
        .op = WIRE_WATCH, .role = WIRE_ROLE_ZYGOTE, .pid = box->installer ? 0 : box->guest.pid};
    int r = box->monitor.fd < 0 ? monitor_spawn(box) : 0;
    r = r ? r : box_tell_monitor(box, &zygote);
    return r < 0 ? fail_set(ret_fail, -r, "the sandbox's process monitor") : 0;
}

void monitor_stop(struct box *box)
{
    program_kill(&box->monitor_pid);
}
