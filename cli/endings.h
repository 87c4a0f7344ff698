#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"

struct rpc_conn;

/* What ends a server besides its connection: SIGTERM, SIGINT and SIGHUP; the end of the parent, since
 * a host may leave stdin open in other processes when it dies; and idleness, where it is asked for.
 * Each stops the loop with code 0. Starts as ENDINGS_NONE. */
struct endings {
    struct loop *loop;
    struct loop_io signals;
    struct loop_io parent;
    int signal_fd;
    int parent_fd;
    struct loop_timer idle;
    const struct rpc_conn *conn;
    uint64_t idle_ms;
};

#define ENDINGS_NONE ((struct endings){.signal_fd = -1, .parent_fd = -1})

/* Blocks the signals; to be called before anything else may take time. 0 or -errno. */
int endings_watch(struct endings *endings, struct loop *loop, pid_t parent);

/* From now on idle_ms without a line from the host or a call in flight end the server. conn: borrowed
 * while the loop runs. */
void endings_watch_idle(struct endings *endings, const struct rpc_conn *conn, uint64_t idle_ms);

/* Blocks SIGTERM, SIGINT and SIGHUP. A signalfd(2) that tells of them, the caller's, or -errno. */
int endings_signal_fd(void);

void endings_done(struct endings *endings);
