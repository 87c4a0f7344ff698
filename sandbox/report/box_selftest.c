/* The server's side of the self-test: receives the record from inside, reads the kernel's data
 * about the interpreter, compares control groups with the limits, and has everything checked
 * (selftest.h). It runs on another processor while the interpreter starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box/box.h"
#include "sandbox/launch/launch.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/report/box_report.h"

#define SELFTEST_NO_START "cannot start the sandbox's self-test"

enum { SELFTEST_MS = 60000 }; /* from the interpreter's report to the record */

/* A file that every program of this user can read by its path, and the sandbox cannot: the path
 * leads through the server's directory in /proc. The file is in memory, so nothing remains when the
 * server is killed. Returns 0 with the path only if the server can read it: otherwise a failure
 * inside would show nothing. */
static int canary_path(char *path, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("sandpiper-canary", MFD_CLOEXEC);
    }
    if (fd < 0) {
        return -errno;
    }
    (void)snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), fd);
    defer_close int readable = open(path, O_RDONLY | O_CLOEXEC);
    return readable < 0 ? -errno : 0;
}

static int expect(const struct box *box, struct selftest_expectation *expected)
{
    *expected = (struct selftest_expectation){
        .level = box->plan.level,
        .outside_uid = box->plan.outside_uid,
        .outside_gid = box->plan.outside_gid,
        .sizes = config_sizes(box),
        .memory_watched = !cgroup_has(&box->cgroup, CGROUP_MEMORY),
        .landlock_abi = landlock_abi(),
        .asks_of_writes = box->plan.asks_of_writes,
        .data = box->plan.data,
        .data_count = box->plan.data_count,
        .data_writable = box->plan.data_writable,
    };
    selftest_look_directories(&box->plan, expected->directories);
    return selftest_look(0, &expected->server);
}

static void selftest_received(struct box *box, size_t size)
{
    struct selftest *selftest = &box->selftest;
    selftest_stop(box);
    selftest->received = true;
    selftest->record_size = size;
    log_debug("sandbox", "self-test: took %llu us, reported after %llu us",
              (unsigned long long)(selftest->record.duration_ns / 1000),
              (unsigned long long)((clock_now_ns() - selftest->began_ns) / 1000));
    box->handlers->selftest_done(box);
}

static void selftest_on_io(void *arg, uint32_t)
{
    struct box *box = arg;
    struct selftest *selftest = &box->selftest;
    ssize_t size = recv(selftest->fd, &selftest->record, sizeof selftest->record, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    selftest_received(box, size > 0 ? (size_t)size : 0);
}

/* It has found nothing against the sandbox: another attempt may succeed. */
static void selftest_failed(struct box *box, int error, const char *what)
{
    struct fail fail = {};
    selftest_stop(box);
    (void)fail_set(&fail, error, "%s", what);
    box->handlers->broken(box, &fail);
}

static void selftest_on_timer(void *arg)
{
    selftest_failed(arg, 0, "the sandbox's self-test did not report within a minute");
}

/* init has started the self-test, which sends its record to fds[0]. */
static void selftest_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    if (reply->error == ECONNRESET) {
        return; /* the sandbox dies */
    }
    int r = reply->error
                ? -reply->error
                : loop_io_add(box->loop, &box->selftest.io, fds[0], EPOLLIN, selftest_on_io, box);
    if (r < 0) {
        selftest_failed(box, -r, SELFTEST_NO_START);
        return;
    }
    box->selftest.fd = take_fd(&fds[0]);
}

int selftest_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request request = {.op = WIRE_SELFTEST};
    box->selftest.began_ns = clock_now_ns();
    int r = canary_path(request.path, sizeof request.path);
    r = r ? r : box_ask(box, &request, selftest_started, box);
    return r < 0 ? fail_set(ret_fail, -r, SELFTEST_NO_START) : 0;
}

void selftest_stop(struct box *box)
{
    loop_io_remove(&box->selftest.io);
    loop_timer_disarm(&box->selftest.timer);
    drop_fd(&box->selftest.fd);
}

/* The number at the start of a control group's file, or -1. "max" and other text is not the
 * configured limit. */
static int64_t group_number(const struct cgroup *cgroup, enum cgroup_controller controller,
                            const char *file)
{
    char text[64];
    const char *rest = NULL;
    uint64_t number = 0;
    if (fd_read_text_at(cgroup->controller_fd[controller], file, text, sizeof text) < 0 ||
        parse_digits(text, &number, &rest) < 0 || number > INT64_MAX) {
        return -1;
    }
    return (int64_t)number;
}

/* Whether the process is in the sandbox's cgroup, according to /proc. */
static bool is_member(const struct cgroup *cgroup, pid_t pid)
{
    char path[32];
    char groups[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    return fd_read_text_at(AT_FDCWD, path, groups, sizeof groups) > 0 &&
           strstr(groups, cgroup->name);
}

static void selftest_limits(const struct box *box, pid_t pid, struct selftest_verdict *verdict)
{
    const struct cgroup *cgroup = &box->cgroup;
    const struct box_limits *limits = &box->spec->limits;
    int64_t page = sysconf(_SC_PAGESIZE);
    const struct {
        enum cgroup_controller controller;
        enum box_protection protection;
        const char *file[2]; /* version 1, version 2 */
        int64_t most;
    } rows[] = {
        {CGROUP_MEMORY,
         BOX_PROTECTION_MEMORY,
         {"memory.limit_in_bytes", "memory.max"},
         (int64_t)limits->memory_bytes / page * page},
        {CGROUP_PIDS,
         BOX_PROTECTION_PIDS,
         {"pids.max", "pids.max"},
         limits->pids + LIMIT_PIDS_SPARE},
        {CGROUP_CPU, BOX_PROTECTION_CPU, {"cpu.cfs_quota_us", "cpu.max"}, -1},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!cgroup_has(cgroup, rows[i].controller)) {
            continue;
        }
        int64_t now = group_number(cgroup, rows[i].controller, rows[i].file[cgroup->unified]);
        bool asked = rows[i].controller != CGROUP_CPU || limits->cpu_milli;
        if (!is_member(cgroup, pid)) {
            selftest_found(verdict, rows[i].protection,
                           "the interpreter is not in its control group");
        } else if (asked && (now < 0 || (rows[i].most >= 0 && now > rows[i].most))) {
            selftest_found(verdict, rows[i].protection,
                           "the control group has another limit than the one that was set");
        }
    }
}

void selftest_wait(struct box *box)
{
    if (!box->selftest.received) {
        loop_timer_in(box->loop, &box->selftest.timer, SELFTEST_MS, selftest_on_timer, box);
    }
}

/* The sandbox works without it: calls find that it is missing. */
static void warn_missing_data(const struct box *box)
{
    const struct selftest *selftest = &box->selftest;
    bool whole = selftest->record_size == sizeof selftest->record;
    for (unsigned i = 0; whole && i < box->plan.data_count; i++) {
        if (!selftest->record.data_flags[i]) {
            log_warn("sandbox", "%s is left out: its directory cannot be opened",
                     box->plan.data[i]);
        }
    }
}

int selftest_check(const struct box *box, pid_t pid, struct selftest_verdict *verdict)
{
    struct selftest_expectation expected;
    struct selftest_process process;
    *verdict = (struct selftest_verdict){};
    int r = expect(box, &expected);
    if (r < 0) {
        selftest_found(verdict, BOX_PROTECTION_NAMESPACES, "cannot read /proc/self: %s",
                       strerror(-r));
        return 0;
    }
    r = pid > 0 ? selftest_look(pid, &process) : -EBADF;
    r = r ? r : selftest_look_socket(box->guest.fd, &process.control);
    if (r == -ENOENT || r == -ESRCH) {
        return -ESRCH;
    }
    if (r < 0) {
        selftest_found(verdict, BOX_PROTECTION_NAMESPACES, "cannot inspect the interpreter: %s",
                       strerror(-r));
    } else {
        selftest_check_process(&process, &expected, verdict);
    }
    selftest_check_record(&box->selftest.record, box->selftest.record_size, &expected, verdict);
    warn_missing_data(box);
    selftest_limits(box, pid, verdict);
    return 0;
}
