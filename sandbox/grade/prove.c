/* The server's side of the start-up proof: hears the inside witness, looks at the interpreter, asks
 * the control groups what they hold, and has all of it judged (proof.h). It runs while the interpreter
 * starts, and costs it nothing but the processor's other half. */
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
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box.h"
#include "sandbox/confine/landlock.h"

enum { PROVE_MS = 10000 }; /* from the interpreter's word to the witness's: it is silent else */

/* A file that any program of this user can read by its path, and the box cannot: the path goes through
 * the server's folder in /proc. It is in memory, so nothing is left when the server is killed. Returns
 * 0 with the path, when it can be read here: else its being unreadable inside would prove nothing. */
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

static int expect(const struct box *box, struct proof_expectation *expected)
{
    *expected = (struct proof_expectation){
        .profile = box->plan.profile,
        .outside_uid = box->plan.outside_uid,
        .outside_gid = box->plan.outside_gid,
        .sizes = config_sizes(box),
        .memory_watched = !cgroup_has(&box->cgroup, CGROUP_MEMORY),
        .landlock_abi = landlock_abi(),
        .data = box->plan.data,
        .data_count = box->plan.data_count,
        .data_writable = box->plan.data_writable,
    };
    proof_look_folders(&box->plan, expected->folders);
    return proof_look(0, &expected->server);
}

static void prove_heard(struct box *box, size_t size)
{
    struct prove *prove = &box->prove;
    prove_stop(box);
    prove->heard = true;
    prove->record_size = size;
    log_debug("sandbox", "proof: the witness took %llu us, and was heard after %llu us",
              (unsigned long long)(prove->record.duration_ns / 1000),
              (unsigned long long)((clock_now_ns() - prove->began_ns) / 1000));
    box_settle(box);
}

static void prove_on_io(void *arg, uint32_t events)
{
    struct box *box = arg;
    struct prove *prove = &box->prove;
    (void)events;
    ssize_t size = recv(prove->fd, &prove->record, sizeof prove->record, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    prove_heard(box, size > 0 ? (size_t)size : 0);
}

static void prove_on_timer(void *arg)
{
    prove_heard(arg, 0);
}

/* pid 1 has started the witness, which reports on fd. */
static void prove_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    if (reply->error == ECONNRESET || box->prove.heard) {
        return; /* the box ends, or it was given up */
    }
    if (reply->error ||
        loop_io_add(box->loop, &box->prove.io, fds[0], EPOLLIN, prove_on_io, box) < 0) {
        prove_heard(box, 0);
        return;
    }
    box->prove.fd = take_fd(&fds[0]);
}

int prove_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request request = {.op = WIRE_PROVE};
    box->prove.began_ns = clock_now_ns();
    int r = canary_path(request.path, sizeof request.path);
    r = r ? r : link_send(box, &request, prove_started, box);
    return r < 0 ? fail_set(ret_fail, -r, "start the proof of the sandbox") : 0;
}

void prove_stop(struct box *box)
{
    loop_io_remove(&box->prove.io);
    loop_timer_disarm(&box->prove.timer);
    drop_fd(&box->prove.fd);
}

/* The number that a control group's file starts with, or -1. "max" and what else is no number is not
 * what was set. */
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

/* Whether the process is in the box's group, by its own line in /proc. */
static bool is_member(const struct cgroup *cgroup, pid_t pid)
{
    char path[32];
    char groups[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    return fd_read_text_at(AT_FDCWD, path, groups, sizeof groups) > 0 &&
           strstr(groups, cgroup->name);
}

static void prove_limits(const struct box *box, pid_t pid, struct proof_verdict *verdict)
{
    const struct cgroup *cgroup = &box->cgroup;
    const struct box_limits *limits = &box->spec->limits;
    int64_t page = sysconf(_SC_PAGESIZE);
    const struct {
        enum cgroup_controller controller;
        enum box_layer layer;
        const char *file[2]; /* version 1, version 2 */
        int64_t most;
    } rows[] = {
        {CGROUP_MEMORY,
         BOX_LAYER_MEMORY,
         {"memory.limit_in_bytes", "memory.max"},
         (int64_t)limits->memory_bytes / page * page},
        {CGROUP_PIDS, BOX_LAYER_PIDS, {"pids.max", "pids.max"}, limits->pids},
        {CGROUP_CPU, BOX_LAYER_CPU, {"cpu.cfs_quota_us", "cpu.max"}, -1},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!cgroup_has(cgroup, rows[i].controller)) {
            continue;
        }
        int64_t now = group_number(cgroup, rows[i].controller, rows[i].file[cgroup->unified]);
        bool asked = rows[i].controller != CGROUP_CPU || limits->cpu_milli;
        if (!is_member(cgroup, pid)) {
            proof_found(verdict, rows[i].layer, "the interpreter is not in its control group");
        } else if (asked && (now < 0 || (rows[i].most >= 0 && now > rows[i].most))) {
            proof_found(verdict, rows[i].layer, "the control group's limit is not what was set");
        }
    }
}

void prove_wait(struct box *box)
{
    if (!box->prove.heard) {
        loop_timer_arm(box->loop, &box->prove.timer, clock_now_ns() + PROVE_MS * CLOCK_NS_PER_MS,
                       prove_on_timer, box);
    }
}

/* The box is made without it: calls find that it is not there. */
static void tell_missing_data(const struct box *box)
{
    const struct prove *prove = &box->prove;
    bool whole = prove->record_size == sizeof prove->record;
    for (unsigned i = 0; whole && i < box->plan.data_count; i++) {
        if (!prove->record.data_flags[i]) {
            log_warn("sandbox", "%s is left out: its folder cannot be opened any more",
                     box->plan.data[i]);
        }
    }
}

int prove_judge(const struct box *box, pid_t pid, struct proof_verdict *verdict)
{
    struct proof_expectation expected;
    struct proof_view view;
    *verdict = (struct proof_verdict){};
    int r = expect(box, &expected);
    if (r < 0) {
        proof_found(verdict, BOX_LAYER_NAMESPACES, "/proc/self cannot be read: %s", strerror(-r));
        return 0;
    }
    r = pid > 0 ? proof_look(pid, &view) : -EBADF;
    r = r ? r : proof_look_socket(box->guest_fd, &view.control);
    if (r == -ENOENT || r == -ESRCH) {
        return -ESRCH;
    }
    if (r < 0) {
        proof_found(verdict, BOX_LAYER_NAMESPACES, "the interpreter cannot be looked at: %s",
                    strerror(-r));
    } else {
        proof_judge_view(&view, &expected, verdict);
    }
    proof_judge_record(&box->prove.record, box->prove.record_size, &expected, verdict);
    tell_missing_data(box);
    prove_limits(box, pid, verdict);
    return 0;
}
