#include <stdio.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/launch/launch.h"
#include "sandbox/programs/program.h"

static int monitor_spawn(struct box *box)
{
    char number[16];
    char limit[24];
    char item[24];
    const char *const argv[] = {"sandpiper-monitor", number, limit, item, NULL};
    bool counted = cgroup_has(&box->cgroup, CGROUP_MEMORY);
    int ends[2];
    (void)snprintf(number, sizeof number, "%d", (int)box->child.pid);
    (void)snprintf(limit, sizeof limit, "%llu",
                   counted ? 0ULL : (unsigned long long)box->spec->limits.memory_bytes);
    (void)snprintf(item, sizeof item, "%llu",
                   (unsigned long long)config_epoll_item_bytes(&box->spec->limits));
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
    r = r ? r : box_tell_monitor_keeper(box);
    return r < 0 ? fail_set(ret_fail, -r, "the sandbox's process monitor") : 0;
}

void monitor_stop(struct box *box)
{
    program_kill(&box->monitor_pid);
}
