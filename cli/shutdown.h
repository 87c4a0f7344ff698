#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct rpc_conn;
struct tools;

/* What ends a server besides its connection: SIGTERM, SIGINT and SIGHUP; the end of the parent, as
 * a client that dies may leave stdin open in other processes; and idleness, if requested. Each
 * stops the loop with code 0. Starts as SHUTDOWN_NONE. */
struct shutdown {
    struct loop *loop;
    struct loop_io signals;
    struct loop_io parent;
    int signal_fd;
    int parent_fd;
    struct loop_timer idle;
    const struct rpc_conn *conn;
    const struct tools *tools;
    uint64_t idle_ms;
    const char *why; /* what ended the server */
};

#define SHUTDOWN_NONE                                                                              \
    ((struct shutdown){.signal_fd = -1, .parent_fd = -1, .why = "stdin was closed"})

/* Blocks the signals; must be called before anything that may take time. 0 or -errno. */
int shutdown_watch(struct shutdown *shutdown, struct loop *loop, pid_t parent);

/* From here on the server exits after idle_ms without a line from the client, a call in flight
 * or a job. conn, tools: borrowed while the loop runs. */
void shutdown_watch_idle(struct shutdown *shutdown, const struct rpc_conn *conn,
                         const struct tools *tools, uint64_t idle_ms);

/* Blocks SIGTERM, SIGINT and SIGHUP, and watches a signalfd(2) that receives them, *ret_fd, owned
 * by the caller. 0 or -errno. */
int shutdown_watch_signals(struct loop *loop, struct loop_io *io, int *ret_fd, loop_io_fn fn,
                           void *arg);

void shutdown_done(struct shutdown *shutdown);
