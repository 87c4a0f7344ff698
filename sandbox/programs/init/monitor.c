/* The lookout sees the processes of a box for its pid 1, where that one has no /proc.
 *
 * Without /proc nothing tells pid 1 what processes use, and it would have to try each number to find them. So
 * the server starts this program outside of the box, with the /proc that the server sees. It counts memory,
 * kills a session's processes and asks for traces, by the code and the messages of pid 1; there is no guest
 * in it, and nothing of a guest is read but the kernel's words about it. It ends with its socket.
 *
 *   sandpiper-lookout PID LIMIT     fd 3: the socket; pid 1's number outside; bytes, 0: not to be watched
 *
 * Numbers in messages are the box's, like all that server and pid 1 say to each other. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/init/init.h"
#include "sandbox/wire/packet.h"

/* The last number of "NSpid:\t4711\t12", that of the innermost namespace: proc(5), Linux 4.1. 0: gone. */
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

/* 0: there is none of that number. */
static pid_t outer_number(const struct init *init, pid_t inner)
{
    const pid_t *pids = NULL;
    unsigned count = family_list(init->root, &pids);
    for (unsigned i = 0; inner > 1 && i < count; i++) {
        if (inner_number(pids[i]) == inner) {
            return pids[i];
        }
    }
    return 0;
}

static void lookout_receive(struct init *lookout)
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
        watch_kill_tag(lookout, &request);
        return;
    }
    request.pid = outer_number(lookout, request.pid);
    if (request.op == WIRE_TRACE) {
        init_answer(request.id, -watch_trace(lookout, request.pid));
    } else if (request.op == WIRE_WATCH && request.role == WIRE_ROLE_ZYGOTE) {
        lookout->zygote = request.pid;
    } else if (request.op == WIRE_WATCH) {
        watch_add(lookout, &request);
    }
}

int lookout_main(int argc, char **argv)
{
    static struct wire_config config;
    static struct init lookout = {.config = &config, .outside = true, .signal_fd = -1};
    char tmp[32];
    if (argc != 3) {
        return 1;
    }
    lookout.root = (pid_t)strtoul(argv[1], NULL, 10);
    config.watch_memory_bytes = strtoull(argv[2], NULL, 10);
    (void)snprintf(tmp, sizeof tmp, "/proc/%d/root/tmp", (int)lookout.root);
    lookout.view.tmp = tmp;
    bool sweeps = false;
    for (;;) {
        struct pollfd socket = {.fd = WIRE_INIT_FD, .events = POLLIN};
        (void)poll(&socket, 1,
                   sweeps                      ? INIT_SWEEP_MS
                   : config.watch_memory_bytes ? INIT_WATCH_MS
                                               : -1);
        if (socket.revents) {
            lookout_receive(&lookout);
        }
        sweeps = watch_sweep(&lookout);
        if (config.watch_memory_bytes) {
            watch_memory(&lookout);
        }
    }
}
