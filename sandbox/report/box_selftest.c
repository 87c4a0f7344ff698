/* The server's side of the self-test: receives the record from inside, reads the kernel's data
 * about the interpreter, compares control groups with the limits, and has everything checked
 * (report.h). It runs on another processor while the interpreter starts. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box/box.h"
#include "sandbox/launch/launch.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/report/isolation.h"
#include "sandbox/report/report.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

/* Gathers the facts for an isolation report: from the host alone, from a sandbox that could not be
 * made, or from one that was tested. */

/* Steps that are not listed belong to the mounts. */
static const struct {
    enum plan_kind kind;
    enum box_protection protection;
} step_protections[] = {
    {PLAN_GROUP, BOX_PROTECTION_MEMORY},
    {PLAN_CGROUP_NAMESPACE, BOX_PROTECTION_NAMESPACES},
    {PLAN_HOSTNAME, BOX_PROTECTION_NAMESPACES},
    {PLAN_LOOPBACK, BOX_PROTECTION_NAMESPACES},
    {PLAN_NO_NAMESPACES, BOX_PROTECTION_NAMESPACES},
    {PLAN_SESSION, BOX_PROTECTION_PRIVILEGES},
    {PLAN_IDENTITY, BOX_PROTECTION_PRIVILEGES},
    {PLAN_DESCRIPTORS, BOX_PROTECTION_PRIVILEGES},
    {PLAN_CAPABILITIES, BOX_PROTECTION_PRIVILEGES},
    {PLAN_DEATH_SIGNAL, BOX_PROTECTION_PRIVILEGES},
    {PLAN_SECCOMP, BOX_PROTECTION_SECCOMP},
    {PLAN_STEP_DOWN, BOX_PROTECTION_PRIVILEGES},
};

static enum box_protection protection_of_step(enum plan_kind kind)
{
    for (unsigned i = 0; i < sizeof step_protections / sizeof *step_protections; i++) {
        if (step_protections[i].kind == kind) {
            return step_protections[i].protection;
        }
    }
    return BOX_PROTECTION_MOUNTS;
}

/* Fixes need more facts about the host, which cost some file reads: only where a protection is
 * degraded or off. */
static void compute(struct report_facts *facts, struct box_report *report)
{
    struct host host;
    report_compute(facts, report);
    if (box_report_degraded(report)) {
        host_look(&host);
        facts->host = &host;
        report_compute(facts, report);
        facts->host = NULL;
    }
}

void box_report_failure(struct box *box, const struct fail *why, struct fail *ret_fail)
{
    struct fail failure = *why; /* a copy: why may be ret_fail */
    bool at_step = why->step > 0 && why->step <= box->plan.step_count;
    struct report_facts facts = {
        .spec = box->spec,
        .level = box->plan.level,
        .failure = &failure,
        .failed = box->building,
        .failed_step = at_step ? box->plan.steps[why->step - 1].kind : PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
    };
    if (at_step) {
        facts.failed = protection_of_step(facts.failed_step);
    }
    compute(&facts, box->report);
    (void)fail_set(ret_fail, 0, "%s", box->report->refusal);
}

void box_report_verdict(struct box *box, const struct selftest_verdict *verdict)
{
    struct report_facts facts = {
        .spec = box->spec,
        .level = level_found(box->plan.level, box->selftest.record.has_proc),
        .has_hostname = box->selftest.record.has_hostname,
        .has_machine = box->selftest.record.has_machine,
        .cgroup = &box->cgroup,
        .verdict = verdict,
        .failed_step = PLAN_KIND_COUNT,
        .landlock_abi = landlock_abi(),
        .python_path = box->python.path,
        .python_version = box->version,
    };
    compute(&facts, box->report);
    box->report->protected_names = box->protected_names;
    box->report->protected_names.shared |= box_protected_is_shared(box->workspace_fd);
}

void box_report_expect(const struct box_spec *spec, struct box_report *report)
{
    struct report_facts facts = {.spec = spec,
                                 .level = level_expected(spec->isolation),
                                 .failed_step = PLAN_KIND_COUNT,
                                 .landlock_abi = landlock_abi()};
    report_compute(&facts, report);
}

bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail)
{
    static const struct {
        const char *what;
        enum box_protection protection;
    } steps[] = {
        [WIRE_STEP_SESSION] = {"cannot create a process session for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_LIMITS] = {"cannot set resource limits for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_DESCRIPTORS] = {"cannot arrange descriptors for", BOX_PROTECTION_PRIVILEGES},
        [WIRE_STEP_SECCOMP] = {"cannot install seccomp filters for", BOX_PROTECTION_SECCOMP},
        [WIRE_STEP_EXECUTE] = {"cannot execute", BOX_PROTECTION_PYTHON},
        [WIRE_STEP_FIND] = {"the sandbox lacks a file of", BOX_PROTECTION_PYTHON},
        [WIRE_STEP_LANDLOCK] = {"cannot enter a Landlock domain for", BOX_PROTECTION_LANDLOCK},
        [WIRE_STEP_LISTENER] = {"cannot receive seccomp notifications for", BOX_PROTECTION_SECCOMP},
    };
    unsigned step = WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 0;
    if (step >= sizeof steps / sizeof *steps || !steps[step].what) {
        return false;
    }
    box->building = steps[step].protection;
    (void)fail_set(ret_fail, 0, "%s the interpreter %s", steps[step].what, box->python.path);
    return true;
}

static void describe_degraded(const struct box_report *report, struct buf *out)
{
    unsigned count = 0;
    for (unsigned i = 0; i < BOX_PROTECTION_COUNT; i++) {
        if (box_report_degraded(report) & 1U << i) {
            buf_appendf(out, "%s%s (%s)", count++ ? "; " : " Degraded on this machine: ",
                        box_protection_name((enum box_protection)i),
                        report->protections[i].consequence);
        }
    }
    buf_append_text(out, count ? ". `sandpiper doctor` shows the fixes." : "");
}

int box_report_describe(const struct box_report *report, const struct box_spec *spec,
                        struct buf *out)
{
    if (!report->usable) {
        return buf_appendf(out, "Tools refuse to run code here: %s", report->refusal);
    }
    bool named = report->level != BOX_FULL || (report->tested && !box_report_degraded(report));
    buf_appendf(out, "Isolation: %s.",
                named            ? box_level_name(report->level)
                : report->tested ? "weaker than full"
                                 : "tested before any code runs");
    if (spec->limits.cpu_milli &&
        report->protections[BOX_PROTECTION_CPU].state != BOX_PROTECTION_OFF) {
        buf_appendf(out, " The code has %g processors.", spec->limits.cpu_milli / 1000.0);
    }
    describe_degraded(report, out);
    return buf_error(out);
}

enum { STATUS_BYTES = 1 << 20 }; /* NGROUPS_MAX groups take 720 kB */

/* The number behind name, proc(5); -1: there is none. */
static int64_t status_number(const char *status, const char *name)
{
    return (int64_t)parse_field(status, name, UINT64_MAX);
}

/* A capability set has 16 hexadecimal digits. An unreadable one counts as all capabilities. */
static uint64_t status_set(const char *status, const char *name)
{
    char line[64];
    uint64_t value = 0;
    (void)snprintf(line, sizeof line, "\n%s:\t", name);
    const char *found = strstr(status, line);
    if (!found) {
        return ~0UL;
    }
    for (found += strlen(line); *found && *found != '\n'; found++) {
        int digit = parse_hex_digit(*found);
        if (digit < 0) {
            return ~0UL;
        }
        value = value << 4 | (unsigned)digit;
    }
    return value;
}

static int stat_id(int dir_fd, const char *path, struct file_id *ret_id)
{
    struct stat st;
    if (fstatat(dir_fd, path, &st, path[0] ? 0 : AT_EMPTY_PATH) < 0) {
        return -errno;
    }
    *ret_id = (struct file_id){st.st_dev, st.st_ino};
    return 0;
}

int selftest_look(pid_t pid, struct selftest_process *ret_process)
{
    static const char *const namespaces[SELFTEST_NS_COUNT] = {
        "ns/user", "ns/mnt", "ns/pid", "ns/net", "ns/ipc", "ns/uts", "ns/cgroup"};
    static const char *const sets[5] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    char path[32] = "/proc/self";
    static char status[STATUS_BYTES];
    struct selftest_process process = {};
    if (pid > 0) {
        (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    }
    /* One open directory for all files: if the process exits, its pid cannot lead to another
     * process. */
    defer_close int proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        return -errno;
    }
    int r = fd_read_text_at(proc, "status", status, sizeof status);
    r = r < 0 ? r : stat_id(proc, "root", &process.root);
    for (unsigned i = 0; r >= 0 && i < SELFTEST_NS_COUNT; i++) {
        r = stat_id(proc, namespaces[i], &process.namespaces[i]);
    }
    if (r < 0) {
        return r;
    }
    for (unsigned i = 0; i < 5; i++) {
        process.capabilities[i] = status_set(status, sets[i]);
    }
    process.no_new_privs = status_number(status, "NoNewPrivs:");
    process.seccomp_mode = status_number(status, "Seccomp:");
    process.seccomp_filters = status_number(status, "Seccomp_filters:");
    process.uid = (uint64_t)status_number(status, "Uid:");
    process.gid = (uint64_t)status_number(status, "Gid:");
    *ret_process = process;
    return 0;
}

int selftest_look_socket(int socket_fd, struct file_id *ret_namespace)
{
    defer_close int fd = ioctl(socket_fd, SIOCGSKNS);
    return fd < 0 ? -errno : stat_id(fd, "", ret_namespace);
}

/* The host's directories. Leaves those empty that the plan shows: they are the sandbox's too. */
static void selftest_look_directories(const struct plan *plan,
                                      struct file_id directories[SELFTEST_DIRECTORY_COUNT])
{
    static const char *const names[SELFTEST_DIRECTORY_COUNT] = SELFTEST_DIRECTORIES;
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        bool shown = false;
        for (unsigned k = 0; k < plan->step_count; k++) {
            const struct plan_step *step = &plan->steps[k];
            shown = shown || (step->kind == PLAN_MOVE && strcmp(step->target, names[i]) == 0);
        }
        if (shown || stat_id(AT_FDCWD, names[i], &directories[i]) < 0) {
            directories[i] = (struct file_id){};
        }
    }
}

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
