#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "guest/guest.h"
#include "rpc/conn.h"
#include "tools/tools.h"

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
    loop_io_remove(&shutdown->parent); /* it stays readable */
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

/* Blocks the signals; must be called before anything that may take time. 0 or -errno. */
static int shutdown_watch(struct shutdown *shutdown, struct loop *loop, pid_t parent)
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

/* From here on the server exits after idle_ms without a line from the client, a call in flight
 * or a job. conn, tools: borrowed while the loop runs. */
static void shutdown_watch_idle(struct shutdown *shutdown, const struct rpc_conn *conn,
                                const struct tools *tools, uint64_t idle_ms)
{
    shutdown->conn = conn;
    shutdown->tools = tools;
    shutdown->idle_ms = idle_ms;
    on_idle(shutdown);
}

static void shutdown_done(struct shutdown *shutdown)
{
    loop_timer_disarm(&shutdown->idle);
    loop_io_remove(&shutdown->signals);
    loop_io_remove(&shutdown->parent);
    drop_fd(&shutdown->signal_fd);
    drop_fd(&shutdown->parent_fd);
}

/* Wires the modules together: the loop, the tools over one sandbox, the connection on stdin and
 * stdout. Ends with exit code 0 when stdin ends, when stdout breaks, or for a reason of struct
 * shutdown. In every case it kills the sandbox first. */

enum { FLUSH_MS = 200 }; /* of the 500 ms that a client may allow */

struct server {
    struct loop *loop;
    struct shutdown shutdown;
    int fd_in;
    int fd_out;
    struct record *record; /* NULL: none */
};

static void on_closed(void *arg)
{
    struct server *server = arg;
    loop_stop(server->loop, 0);
}

/* The protocol's descriptors become private, so that no child and no library can write to the
 * client; 0 and 1 stay open, or the next open(2) would get their numbers. */
static int take_wire(struct server *server)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        return -errno;
    }
    /* For a client that passed no stderr, an open(2) of the server would get its number. */
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) {
        (void)dup2(null, STDERR_FILENO);
    }
    server->fd_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    server->fd_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    if (server->fd_in < 0 || server->fd_out < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0) {
        return -errno;
    }
    return null > 2 ? close(null) : 0;
}

/* What a record begins with. */
static json_t *make_start(struct options *options)
{
    struct utsname machine = {};
    (void)uname(&machine);
    return json_pack("{s:s, s:s, s:o}", "version", SANDPIPER_VERSION, "host", machine.nodename,
                     "settings", effective_settings(options));
}

static int serve(struct server *server, struct options *options)
{
    static const struct rpc_config config = {.server_name = "sandpiper",
                                             .server_title = "Sandpiper: Python in a sandbox",
                                             .server_version = SANDPIPER_VERSION};
    struct tools *tools = NULL;
    struct rpc_conn *conn = NULL;
    json_auto_t *start = server->record ? make_start(options) : NULL;
    struct tools_config tools_config = options_tools_config(options);
    tools_config.record = server->record;
    tools_config.start = start;
    tools_config.keep = &options->keep;
    int r = tools_new(server->loop, &tools_config, &tools);
    if (r == 0) {
        struct rpc_tools for_rpc = tools_for_rpc(tools);
        r = rpc_conn_new(server->loop, server->fd_in, server->fd_out, &config, &for_rpc, on_closed,
                         server, &conn);
    }
    if (r == 0 && options->idle_exit_ms) {
        shutdown_watch_idle(&server->shutdown, conn, tools, options->idle_exit_ms);
    }
    if (r == 0) {
        r = loop_run(server->loop);
    }
    if (r == 0) {
        tools_save(tools);
    }
    /* The sandbox first: whatever happens to the client's end, no code runs any more. */
    tools_free(tools);
    record_set_start(server->record, NULL, NULL);
    record_end(server->record, server->shutdown.why);
    if (conn) {
        (void)rpc_conn_flush(conn, FLUSH_MS);
        rpc_conn_free(conn);
    }
    return r;
}

int command_serve(const struct options *options)
{
    struct server server = {.shutdown = SHUTDOWN_NONE, .fd_in = -1, .fd_out = -1};
    struct options with_guest = *options;
    with_guest.spec.guest = guest_catalog;
    if (options->spec.egress) { /* the user may allow more hosts while the server runs */
        with_guest.spec.egress = &with_guest.egress;
    }
    struct box_scratch *scratch = NULL;
    struct box_store *store = NULL;
    struct fail fail = {};
    char start_error[FAIL_TEXT + 128];
    int r = take_wire(&server);
    proxy_warn(options);
    /* Without it the server still serves, and its tools report why they cannot work. */
    if (r == 0 && !options->error[0] &&
        (box_scratch_open(&with_guest.spec, &scratch, &fail) < 0 ||
         box_store_open(&with_guest.spec, &store, &fail) < 0)) {
        with_guest.spec.start_error = fail_describe(&fail, start_error, sizeof start_error);
        log_error("cli", "%s", start_error);
    }
    if (r == 0 && options->record.directory && !options->error[0]) {
        server.record = record_new(&options->record);
        r = server.record ? 0 : -ENOMEM;
    }
    r = r ? r : loop_new(&server.loop);
    r = r ? r : shutdown_watch(&server.shutdown, server.loop, getppid());
    r = r ? r : serve(&server, &with_guest);
    shutdown_done(&server.shutdown);
    record_free(server.record);
    loop_free(server.loop);
    box_store_close(store);
    box_scratch_close(scratch);
    if (r < 0) {
        log_error("cli", "serve: %s", fail.text[0] ? fail.text : strerror(-r));
        return 1;
    }
    return 0;
}
