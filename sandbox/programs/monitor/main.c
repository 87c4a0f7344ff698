/* The process monitor sees the processes of a sandbox for its init, where that has no /proc.
 *
 * Without /proc nothing tells init what processes use, and it would have to try each number to find
 * them. So the server starts this program outside the sandbox, with the server's /proc. It counts
 * memory, kills a session's processes and requests traces, with init's code and messages. It runs
 * no guest, and reads nothing of a guest but what the kernel reports about it. It exits with its
 * socket.
 *
 *   sandpiper-monitor PID LIMIT ITEM     fd 3: the socket
 *
 * PID: init's number outside. LIMIT: in bytes; 0: memory is not watched. ITEM: of epoll, in bytes.
 * Numbers in messages are the sandbox's, as in all messages between server and init. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/programs/common/memory.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/packet.h"

static void monitor_receive(struct processes *processes)
{
    static struct wire_request request;
    ssize_t size = packet_receive(WIRE_INIT_FD, &request, sizeof request, NULL, 0);
    if (size == -EINTR || size == -EAGAIN) {
        return;
    }
    if (size <= 0) {
        _exit(size < 0);
    }
    (void)watch_serve(processes, &request);
}

int monitor_main(int argc, char **argv)
{
    static struct processes processes = {.outside = true};
    char tmp[32];
    if (argc != 4) {
        return 1;
    }
    processes.root = (pid_t)strtoul(argv[1], NULL, 10);
    processes.files_fd = open("/proc/sys/fs/file-nr", O_RDONLY | O_CLOEXEC);
    processes.epoll_item_bytes = strtoull(argv[3], NULL, 10);
    (void)snprintf(tmp, sizeof tmp, "/proc/%d/root/tmp", (int)processes.root);
    const struct memory_watch watch = {
        .processes = &processes, .limit_bytes = strtoull(argv[2], NULL, 10), .tmp = tmp};
    bool sweeps = false;
    for (;;) {
        struct pollfd socket = {.fd = WIRE_INIT_FD, .events = POLLIN};
        (void)poll(&socket, 1,
                   sweeps              ? PROCESSES_SWEEP_MS
                   : watch.limit_bytes ? MEMORY_WATCH_MS
                                       : -1);
        if (socket.revents) {
            monitor_receive(&processes);
        }
        sweeps = watch_sweep(&processes);
        if (watch.limit_bytes) {
            watch_memory(&watch);
        }
    }
}
