/* How a sandbox gets a control group from systemd.
 *
 * On a desktop the server is in a cgroup of its client (app-….scope, session-N.scope) that it may
 * not divide: after a kill for memory in a child of it, systemd would stop the whole cgroup with
 * the client (OOMPolicy=, systemd.scope(5)). So the server requests a scope with the sandbox's
 * limits from the manager (StartTransientUnit, org.freedesktop.systemd1(5)) with the sandbox's init
 * as its member. The server itself stays in its cgroup. It finds the manager's bus by the user's
 * id, because clients pass on neither XDG_RUNTIME_DIR nor DBUS_SESSION_BUS_ADDRESS.
 *
 * The request names a process by number. In another pid namespace than the manager's, as in a
 * container with the host's bus, that number would be another process's: the server makes no
 * request there.
 *
 * The limits are properties of the scope, so the process moves once and the server makes no
 * directory in the scope. Delegate=yes keeps systemd from acting on a kill for memory. The scope
 * lives as long as it has a process: when the server is killed, so is the sandbox's init, and
 * systemd removes the scope. CollectMode= makes systemd forget a failed one too.
 *
 * busctl, systemd's own client, talks to the bus in its own process: a bus that hangs cannot block
 * the loop, and the server needs no bus library. Only the system's own busctl is used, whatever
 * PATH says. Meanwhile the sandbox's child builds its root. Only the effect counts as success: the
 * process is in the scope in time, or it is not. */
#include "sandbox/limits/scope.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "sandbox/host/command.h"
#include "sandbox/limits/cgroup.h"

enum { LOOK_MS = 1, WORDS = 64, WORD_BYTES = 96 };

struct words {
    char text[WORDS][WORD_BYTES];
    char *argv[WORDS + 1];
    unsigned count;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *fmt, ...)
{
    va_list args;
    assert(words->count < WORDS);
    char *word = words->text[words->count];
    va_start(args, fmt);
    (void)vsnprintf(word, WORD_BYTES, fmt, args);
    va_end(args);
    words->argv[words->count++] = word;
    words->argv[words->count] = NULL;
}

static void add_property(struct words *words, const char *name, const char *type, uint64_t value)
{
    add(words, "%s", name);
    add(words, "%s", type);
    add(words, "%" PRIu64, value);
}

static void bus_path(char out[64])
{
    if (geteuid() == 0) {
        (void)snprintf(out, 64, "/run/dbus/system_bus_socket");
    } else {
        (void)snprintf(out, 64, "/run/user/%u/bus", (unsigned)geteuid());
    }
}

bool scope_is_elsewhere(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {};
    socklen_t size = sizeof peer;
    defer_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0;
}

static void add_call(struct words *words, const struct scope *scope,
                     const struct box_limits *limits)
{
    char path[64];
    bus_path(path);
    add(words, "--address=unix:path=%s", path);
    add(words, "call");
    add(words, "org.freedesktop.systemd1");
    add(words, "/org/freedesktop/systemd1");
    add(words, "org.freedesktop.systemd1.Manager");
    add(words, "StartTransientUnit");
    add(words, "ssa(sv)a(sa(sv))");
    add(words, "%s", scope->unit);
    add(words, "fail");
    add(words, "%d", limits->cpu_milli ? 8 : 7);
    add(words, "PIDs");
    add(words, "au");
    add(words, "1");
    add(words, "%d", (int)scope->pid);
    add(words, "CollectMode");
    add(words, "s");
    add(words, "inactive-or-failed");
    add(words, "Delegate");
    add(words, "b");
    add(words, "true");
    add_property(words, "MemoryMax", "t", limits->memory_bytes);
    add_property(words, "MemorySwapMax", "t", 0);
    add_property(words, "TasksMax", "t", limits->pids + LIMIT_PIDS_SPARE);
    /* At log-out the manager waits this long after SIGTERM. */
    add_property(words, "TimeoutStopUSec", "t", 500000);
    if (limits->cpu_milli) {
        add_property(words, "CPUQuotaPerSecUSec", "t", (uint64_t)limits->cpu_milli * 1000);
    }
    add(words, "0");
}

static void scope_finish(struct scope *scope, const char *error)
{
    char text[256] = "";
    if (error) {
        scope->said[strcspn(scope->said, "\n")] = '\0'; /* the first line has the reason */
        (void)snprintf(text, sizeof text, "systemd creates no scope for the sandbox: %s",
                       scope->said[0] ? scope->said : error);
    }
    scope_cancel(scope);
    scope->fn(scope->arg, error ? text : NULL);
}

static bool scope_has_member(const struct scope *scope)
{
    char path[PATH_MAX];
    if (!cgroup_place_of(scope->pid, path)) {
        return false;
    }
    const char *name = strrchr(path, '/');
    return name && strcmp(name + 1, scope->unit) == 0;
}

static void scope_look(void *arg)
{
    struct scope *scope = arg;
    uint64_t now_ns = clock_now_ns();
    int status = 0;
    if (scope->helper_pid > 0 && waitpid(scope->helper_pid, &status, WNOHANG) > 0) {
        scope->helper_pid = 0;
    }
    if (scope_has_member(scope)) {
        scope_finish(scope, NULL);
    } else if (status != 0) {
        scope_finish(scope, "its bus refused the request");
    } else if (now_ns >= scope->deadline_ns) {
        scope_finish(scope, "its bus did not respond in time");
    } else {
        uint64_t next_ns = now_ns + LOOK_MS * CLOCK_NS_PER_MS;
        loop_timer_arm(scope->loop, &scope->timer,
                       scope->said_fd < 0 ? next_ns : scope->deadline_ns, scope_look, scope);
    }
}

/* busctl prints an error or exits. After its exit systemd's job runs; a check every millisecond
 * shows when the process has moved. */
static void scope_on_said(void *arg, uint32_t)
{
    struct scope *scope = arg;
    char text[sizeof scope->said];
    ssize_t size = read(scope->said_fd, text, sizeof text - 1);
    if (size > 0) {
        text[size] = '\0';
        buf_extend(scope->said, sizeof scope->said, "%s", text);
        return;
    }
    if (size < 0 && errno == EAGAIN) {
        return;
    }
    loop_io_remove(&scope->said_io);
    drop_fd(&scope->said_fd);
    scope_look(scope);
}

int scope_ask(struct scope *scope, struct loop *loop, const struct scope_request *request,
              scope_fn fn, void *arg)
{
    static struct words words;
    static char plain[] = "LC_ALL=C";
    char *const envp[] = {plain, NULL};
    char path[64];
    words.count = 0;
    *scope = (struct scope){.said_fd = -1, .pid = request->pid, .fn = fn, .arg = arg};
    bus_path(path);
    if (scope_is_elsewhere(path)) {
        return -EXDEV;
    }
    (void)snprintf(scope->unit, sizeof scope->unit, "%s.scope", request->name);
    add(&words, "busctl");
    add_call(&words, scope, request->limits);
    int r = helper_start(request->program, words.argv, envp, STDERR_FILENO, &scope->helper_pid,
                         &scope->said_fd);
    if (r < 0) {
        return r;
    }
    scope->loop = loop;
    scope->deadline_ns = clock_now_ns() + request->within_ms * CLOCK_NS_PER_MS;
    loop_timer_arm(loop, &scope->timer, scope->deadline_ns, scope_look, scope);
    r = loop_io_add(loop, &scope->said_io, scope->said_fd, EPOLLIN, scope_on_said, scope);
    if (r < 0) {
        scope_cancel(scope);
    }
    return r;
}

void scope_cancel(struct scope *scope)
{
    if (!scope->loop) {
        return;
    }
    scope->loop = NULL;
    loop_io_remove(&scope->said_io);
    loop_timer_disarm(&scope->timer);
    drop_fd(&scope->said_fd);
    helper_end(scope->helper_pid);
    scope->helper_pid = 0;
}
