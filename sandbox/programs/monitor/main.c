/* The process monitor sees the processes of a sandbox for its init, where that has no /proc.
 *
 * Without /proc nothing tells init what processes use, and it would have to try each number to find
 * them. So the server starts this program outside the sandbox, with the server's /proc. It counts
 * memory, kills a session's processes and requests traces, with init's code and messages. It runs
 * no guest, and reads nothing of a guest but what the kernel reports about it. It exits with its
 * socket.
 *
 *   sandpiper-monitor PID LIMIT     fd 3: the socket
 *
 * PID: init's number outside. LIMIT: in bytes; 0: memory is not watched. Numbers in messages are
 * the sandbox's, as in all messages between server and init. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/programs/init/init.h"
#include "sandbox/protocol/packet.h"

/* The last number of "NSpid:\t4711\t12", that of the innermost namespace: proc(5), Linux 4.1. 0:
 * the process is gone. */
static pid_t inner_number(pid_t pid)
{
    static char status[INIT_STATUS_BYTES];
    static const char name[] = "\nNSpid:";
    const char *at =
        read_proc(pid, "status", status, sizeof status) > 0 ? strstr(status, name) : NULL;
    long number = 0;
    char *end = NULL;
    for (at = at ? at + sizeof name - 1 : NULL; at && *at && *at != '\n'; at = end) {
        number = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
    }
    return (pid_t)number;
}

pid_t init_number(const struct init *init, pid_t pid)
{
    return init->outside ? inner_number(pid) : pid;
}

/* 0: no process has this number. */
static pid_t outer_number(const struct init *init, pid_t inner)
{
    const pid_t *pids = NULL;
    unsigned count = process_tree_list(init->root, &pids);
    for (unsigned i = 0; inner > 1 && i < count; i++) {
        if (inner_number(pids[i]) == inner) {
            return pids[i];
        }
    }
    return 0;
}

static void monitor_receive(struct init *monitor)
{
    static struct wire_request request;
    ssize_t size = packet_receive(WIRE_INIT_FD, &request, sizeof request, NULL, 0);
    if (size == -EINTR || size == -EAGAIN) {
        return;
    }
    if (size <= 0) {
        _exit(size < 0);
    }
    if (request.op == WIRE_KILL_TAG) {
        watch_kill_tag(monitor, &request);
        return;
    }
    if (request.op == WIRE_COUNT) {
        watch_count(monitor, &request);
        return;
    }
    request.pid = outer_number(monitor, request.pid);
    if (request.op == WIRE_TRACE) {
        init_respond(request.id, -watch_trace(monitor, request.pid));
    } else if (request.op == WIRE_WATCH && request.role == WIRE_ROLE_ZYGOTE) {
        monitor->zygote = request.pid;
    } else if (request.op == WIRE_WATCH && request.role == WIRE_ROLE_KEEPER) {
        monitor->keeper = request.pid;
    } else if (request.op == WIRE_WATCH) {
        watch_add(monitor, &request);
    }
}

int monitor_main(int argc, char **argv)
{
    static struct wire_config config;
    static struct init monitor = {.config = &config, .outside = true, .signal_fd = -1};
    char tmp[32];
    if (argc != 3) {
        return 1;
    }
    monitor.root = (pid_t)strtoul(argv[1], NULL, 10);
    config.watch_memory_bytes = strtoull(argv[2], NULL, 10);
    (void)snprintf(tmp, sizeof tmp, "/proc/%d/root/tmp", (int)monitor.root);
    monitor.paths.tmp = tmp;
    bool sweeps = false;
    for (;;) {
        struct pollfd socket = {.fd = WIRE_INIT_FD, .events = POLLIN};
        (void)poll(&socket, 1,
                   sweeps                      ? INIT_SWEEP_MS
                   : config.watch_memory_bytes ? INIT_WATCH_MS
                                               : -1);
        if (socket.revents) {
            monitor_receive(&monitor);
        }
        sweeps = watch_sweep(&monitor);
        if (config.watch_memory_bytes) {
            watch_memory(&monitor);
        }
    }
}
