#include "sandbox/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/protocol/init_protocol.h"

enum {
    SECCOMP_MODE_IS_FILTER = 2,
    FILTERS = 3, /* init's own, or the supervisor's; and two of each guest */
    DESCRIPTORS = 4,
};

static const char *const directory_names[SELFTEST_DIRECTORY_COUNT] = SELFTEST_DIRECTORIES;
static const struct selftest_mount mounts[SELFTEST_MOUNT_COUNT] = SELFTEST_MOUNTS;
static const char *const namespace_names[SELFTEST_NS_COUNT] = {"user", "mount", "pid",   "net",
                                                               "ipc",  "uts",   "cgroup"};

/* Expectations that are not one exact error. */
enum { NOT_ASKED = -1, REFUSED = -2 };

/* The error with which each attempt must fail, with and without namespaces. check_landlock() checks
 * Landlock's effects. */
static const struct {
    enum selftest_attempt attempt;
    enum box_protection protection;
    int error;
    int error_without;
    const char *what;
} attempts[] = {
    {SELFTEST_UNSHARE, BOX_PROTECTION_SECCOMP, EPERM, EPERM, "unshare(CLONE_NEWUSER)"},
    {SELFTEST_MOUNT, BOX_PROTECTION_SECCOMP, EPERM, EPERM, "mount()"},
    {SELFTEST_PTRACE, BOX_PROTECTION_SECCOMP, EPERM, EPERM, "ptrace()"},
    {SELFTEST_IO_URING, BOX_PROTECTION_SECCOMP, ENOSYS, ENOSYS, "io_uring_setup()"},
    {SELFTEST_NETLINK, BOX_PROTECTION_SECCOMP, EPROTONOSUPPORT, EPROTONOSUPPORT,
     "socket(AF_NETLINK) for the events of devices"},
    /* Root's id is not mapped inside; without namespaces, a container's root may remain root. */
    {SELFTEST_BECOME_ROOT, BOX_PROTECTION_PRIVILEGES, EINVAL, NOT_ASKED, "setuid(0)"},
    {SELFTEST_MEMFD, BOX_PROTECTION_SECCOMP, NOT_ASKED, ENOSYS, "memfd_create()"},
    {SELFTEST_PRIORITY, BOX_PROTECTION_SECCOMP, NOT_ASKED, EPERM,
     "setpriority() of another process"},
    {SELFTEST_SIGNAL_PARENT, BOX_PROTECTION_SECCOMP, NOT_ASKED, EPERM, "kill() of the supervisor"},
    {SELFTEST_UNCOVER, BOX_PROTECTION_SECCOMP, EPERM, EPERM, "umount() of what covers /proc"},
    {SELFTEST_CANARY, BOX_PROTECTION_MOUNTS, REFUSED, NOT_ASKED,
     "reading one of the server's files"},
    {SELFTEST_CANARY, BOX_PROTECTION_LANDLOCK, NOT_ASKED, REFUSED,
     "reading one of the server's files"},
};

void selftest_found(struct selftest_verdict *verdict, enum box_protection protection,
                    const char *fmt, ...)
{
    if (!verdict->found[protection][0]) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(verdict->found[protection], sizeof verdict->found[protection], fmt, args);
        va_end(args);
    }
}

static void check_step(const struct selftest_record *record, struct selftest_verdict *verdict)
{
    static const struct {
        enum wire_step step;
        enum box_protection protection;
        const char *what;
    } steps[] = {
        {WIRE_STEP_SESSION, BOX_PROTECTION_PRIVILEGES, "cannot create a process session"},
        {WIRE_STEP_LIMITS, BOX_PROTECTION_PRIVILEGES, "cannot set resource limits"},
        {WIRE_STEP_DESCRIPTORS, BOX_PROTECTION_PRIVILEGES, "cannot arrange descriptors"},
        {WIRE_STEP_SECCOMP, BOX_PROTECTION_SECCOMP, "cannot install the filters"},
        {WIRE_STEP_LANDLOCK, BOX_PROTECTION_LANDLOCK, "cannot enter a Landlock domain"},
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (record->step == (int32_t)steps[i].step) {
            selftest_found(verdict, steps[i].protection, "%s: %s", steps[i].what,
                           strerror(record->error));
            return;
        }
    }
    selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "the self-test stopped at step %d",
                   record->step);
}

static void check_attempts(const struct selftest_record *record,
                           const struct selftest_expectation *expected,
                           struct selftest_verdict *verdict)
{
    bool container = expected->level == BOX_CONTAINER;
    for (unsigned i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        int error = record->attempts[attempts[i].attempt];
        int wanted = container ? attempts[i].error_without : attempts[i].error;
        if (wanted != NOT_ASKED && error != wanted && (wanted != REFUSED || error == 0)) {
            selftest_found(verdict, attempts[i].protection, "%s %s%s", attempts[i].what,
                           error ? "failed with an unexpected error: " : "works",
                           error ? strerror(error) : "");
        }
    }
    /* The root is read-only, the sandbox's or the container's, or Landlock refuses first. */
    int error = record->attempts[SELFTEST_WRITE_ROOT];
    if (error != EACCES && error != EROFS) {
        selftest_found(verdict, container ? BOX_PROTECTION_LANDLOCK : BOX_PROTECTION_MOUNTS,
                       "/etc is writable: %s", error ? strerror(error) : "a file was created");
    }
}

/* An attempt that worked before the confinement must fail with the error after it. One such effect
 * is enough: where the host's own permissions forbid an attempt, it shows nothing. */
static void check_landlock(const struct selftest_record *record,
                           const struct selftest_expectation *expected,
                           struct selftest_verdict *verdict)
{
    int abi = expected->landlock_abi;
    bool container = expected->level == BOX_CONTAINER;
    const struct {
        bool asked;
        int32_t before;
        enum selftest_attempt attempt;
        int error;
        const char *finding;
    } effects[] = {
        {true, record->write_device_before, SELFTEST_WRITE_DEVICE, EACCES,
         "a file that only Landlock protects is writable"},
        {container, record->read_proc_before, SELFTEST_READ_PROC, EACCES,
         "a file that only Landlock protects is readable"},
        {abi >= LANDLOCK_ABI_SCOPES, record->signal_parent_before, SELFTEST_SIGNAL_PARENT, EPERM,
         "signals leave the Landlock domain"},
    };
    bool shown = false;
    verdict->signals_pass =
        abi < LANDLOCK_ABI_SCOPES && record->attempts[SELFTEST_SIGNAL_PARENT] != EPERM;
    for (unsigned i = 0; abi >= LANDLOCK_ABI_LEAST && i < sizeof effects / sizeof *effects; i++) {
        if (!effects[i].asked || effects[i].before != 0) {
            continue;
        }
        shown = true;
        if (record->attempts[effects[i].attempt] != effects[i].error) {
            selftest_found(verdict, BOX_PROTECTION_LANDLOCK, "%s", effects[i].finding);
        }
    }
    if (abi >= LANDLOCK_ABI_LEAST && !shown) {
        selftest_found(verdict, BOX_PROTECTION_LANDLOCK, "no effect observed");
    }
}

/* The five sets. An ordinary user cannot empty the bounding set, which grants nothing by itself
 * under no_new_privs; in its own user namespace everyone can, and does. */
static void check_capabilities(const uint64_t sets[5], const char *whose,
                               const struct selftest_expectation *expected,
                               struct selftest_verdict *verdict)
{
    enum { BOUNDING = 3 };
    for (unsigned i = 0; i < 5; i++) {
        if (sets[i] && !(i == BOUNDING && expected->level == BOX_CONTAINER)) {
            selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "%s: %llx in set %u", whose,
                           (unsigned long long)sets[i], i);
        }
    }
}

static void check_privileges(const struct selftest_record *record,
                             const struct selftest_expectation *expected,
                             struct selftest_verdict *verdict)
{
    bool container = expected->level == BOX_CONTAINER;
    uid_t uid = container ? expected->outside_uid : PLAN_INSIDE_ID;
    gid_t gid = container ? expected->outside_gid : PLAN_INSIDE_ID;
    check_capabilities(record->capabilities, "capabilities left", expected, verdict);
    if (record->no_new_privs != 1) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "no_new_privs is %d",
                       record->no_new_privs);
    }
    if (record->uid != uid || record->gid != gid) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "uid and gid are %u:%u", record->uid,
                       record->gid);
    }
    if (record->descriptors != DESCRIPTORS || record->odd_descriptors) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES,
                       "%u descriptors are open, %u of them unexpected", record->descriptors,
                       record->odd_descriptors);
    }
    if (record->seccomp_mode != SECCOMP_MODE_IS_FILTER) {
        selftest_found(verdict, BOX_PROTECTION_SECCOMP, "the seccomp mode is %d",
                       record->seccomp_mode);
    }
}

static bool same_file(struct file_id a, struct file_id b)
{
    return a.device == b.device && a.inode == b.inode;
}

static bool is_there(struct file_id id)
{
    return id.device || id.inode;
}

static void check_files(const struct selftest_record *record, const struct file_id *host,
                        struct selftest_verdict *verdict)
{
    for (unsigned i = 0; i < SELFTEST_DIRECTORY_COUNT; i++) {
        if (is_there(host[i]) && same_file(host[i], record->directories[i])) {
            selftest_found(verdict, BOX_PROTECTION_MOUNTS, "%s is the host's directory",
                           directory_names[i]);
        }
    }
    if (record->uncovered > 0) {
        selftest_found(
            verdict, BOX_PROTECTION_MOUNTS,
            "names in /proc tell of the host, or they or devices can be changed: %u, such as %.31s",
            record->uncovered, record->uncovered_name);
    }
    for (unsigned i = 0; i < SELFTEST_MOUNT_COUNT; i++) {
        if ((record->mount_flags[i] & mounts[i].flags) != mounts[i].flags) {
            selftest_found(verdict, BOX_PROTECTION_MOUNTS, "%s lacks mount flags: %llx",
                           mounts[i].path, (unsigned long long)record->mount_flags[i]);
        }
    }
}

/* A missing directory is no finding: it can vanish at any time, and code sees that it is
 * missing. */
static void check_data(const struct selftest_record *record,
                       const struct selftest_expectation *expected,
                       struct selftest_verdict *verdict)
{
    for (unsigned i = 0; i < expected->data_count; i++) {
        bool writable = expected->data_writable >> i & 1;
        uint64_t wanted = ST_NOSUID | ST_NODEV | ST_NOEXEC | (writable ? 0 : ST_RDONLY);
        uint64_t flags = record->data_flags[i];
        if (expected->level != BOX_CONTAINER && flags && (flags & wanted) != wanted) {
            selftest_found(verdict, BOX_PROTECTION_MOUNTS, "%s lacks mount flags: %llx",
                           expected->data[i], (unsigned long long)flags);
        }
        if (flags && !writable && record->data_write[i] == 0) {
            selftest_found(verdict, BOX_PROTECTION_MOUNTS, "%s is writable", expected->data[i]);
        }
    }
}

static void check_limits(const struct selftest_record *record,
                         const struct selftest_expectation *expected,
                         struct selftest_verdict *verdict)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = rlimits_wanted(&expected->sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        if (record->limits_soft[i] > wanted[i].soft || record->limits_hard[i] > wanted[i].hard) {
            selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "resource limit %s is %llu",
                           wanted[i].name, (unsigned long long)record->limits_hard[i]);
        }
    }
}

void selftest_check_record(const struct selftest_record *record, size_t size,
                           const struct selftest_expectation *expected,
                           struct selftest_verdict *verdict)
{
    if (size != sizeof *record || record->magic != SELFTEST_MAGIC) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES,
                       "the start-up self-test exited without a result");
        return;
    }
    if (record->step != WIRE_STEP_NONE) {
        check_step(record, verdict);
        return;
    }
    check_attempts(record, expected, verdict);
    check_landlock(record, expected, verdict);
    check_privileges(record, expected, verdict);
    if (expected->level != BOX_CONTAINER) {
        check_files(record, expected->directories, verdict);
    }
    check_data(record, expected, verdict);
    check_limits(record, expected, verdict);
}

static void check_separation(const struct selftest_process *interpreter,
                             const struct selftest_process *server,
                             struct selftest_verdict *verdict)
{
    for (unsigned i = 0; i < SELFTEST_NS_COUNT; i++) {
        struct file_id id = interpreter->namespaces[i];
        if (!is_there(id) || same_file(id, server->namespaces[i])) {
            selftest_found(verdict, BOX_PROTECTION_NAMESPACES, "the %s namespace is the host's",
                           namespace_names[i]);
        }
    }
    if (!same_file(interpreter->control, interpreter->namespaces[SELFTEST_NS_NET])) {
        selftest_found(verdict, BOX_PROTECTION_NAMESPACES,
                       "the interpreter's control socket belongs to another network namespace");
    }
    if (!is_there(interpreter->root) || same_file(interpreter->root, server->root)) {
        selftest_found(verdict, BOX_PROTECTION_MOUNTS, "/ is the host's root directory");
    }
}

void selftest_check_process(const struct selftest_process *interpreter,
                            const struct selftest_expectation *expected,
                            struct selftest_verdict *verdict)
{
    const struct selftest_process *server = &expected->server;
    if (expected->level != BOX_CONTAINER) {
        check_separation(interpreter, server, verdict);
    }
    check_capabilities(interpreter->capabilities, "the interpreter has capabilities", expected,
                       verdict);
    if (interpreter->no_new_privs != 1) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES, "the interpreter's NoNewPrivs is %lld",
                       (long long)interpreter->no_new_privs);
    }
    if (interpreter->uid != expected->outside_uid || interpreter->gid != expected->outside_gid) {
        selftest_found(verdict, BOX_PROTECTION_PRIVILEGES,
                       "the interpreter's uid and gid outside the sandbox are %llu:%llu",
                       (unsigned long long)interpreter->uid, (unsigned long long)interpreter->gid);
    }
    if (interpreter->seccomp_mode != SECCOMP_MODE_IS_FILTER) {
        selftest_found(verdict, BOX_PROTECTION_SECCOMP, "the interpreter's seccomp mode is %lld",
                       (long long)interpreter->seccomp_mode);
    }
    int64_t filters = interpreter->seccomp_filters - server->seccomp_filters;
    int64_t wanted = FILTERS + (expected->memory_watched ? 1 : 0);
    /* The filter that asks init is missing where the enclosing container has its own listener. */
    bool asks = expected->level != BOX_CONTAINER &&
                (expected->asks_of_writes || expected->landlock_abi < LANDLOCK_ABI_SCOPES);
    if (server->seccomp_filters >= 0 && filters != wanted && !(asks && filters == wanted + 1)) {
        selftest_found(verdict, BOX_PROTECTION_SECCOMP, "%lld filters are installed, not %lld",
                       (long long)filters, (long long)wanted);
    }
}
