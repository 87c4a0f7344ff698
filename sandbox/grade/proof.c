#include "sandbox/grade/proof.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "sandbox/confine/landlock.h"
#include "sandbox/confine/rlimits.h"
#include "sandbox/plan/plan.h"
#include "sandbox/wire/wire.h"

enum {
    SECCOMP_MODE_IS_FILTER = 2,
    FILTERS = 3, /* pid 1's own, or the one that asks the guardian; and the two of each guest */
    DESCRIPTORS = 4,
};

static const char *const folder_names[PROOF_FOLDER_COUNT] = PROOF_FOLDERS;
static const struct proof_mount mounts[PROOF_MOUNT_COUNT] = PROOF_MOUNTS;
static const char *const namespace_names[PROOF_NS_COUNT] = {"user", "mount", "pid",   "net",
                                                            "ipc",  "uts",   "cgroup"};

/* What an attempt may end with instead of one error. */
enum { NOT_ASKED = -1, REFUSED = -2 };

/* The error with which each attempt must end, in a box with namespaces and in one without. Landlock's are
 * judged apart. */
static const struct {
    enum proof_attempt attempt;
    enum box_layer layer;
    int error;
    int error_without;
    const char *what;
} attempts[] = {
    {PROOF_UNSHARE, BOX_LAYER_SECCOMP, EPERM, EPERM, "unshare(CLONE_NEWUSER)"},
    {PROOF_MOUNT, BOX_LAYER_SECCOMP, EPERM, EPERM, "mount()"},
    {PROOF_PTRACE, BOX_LAYER_SECCOMP, EPERM, EPERM, "ptrace()"},
    {PROOF_IO_URING, BOX_LAYER_SECCOMP, ENOSYS, ENOSYS, "io_uring_setup()"},
    {PROOF_NETLINK, BOX_LAYER_SECCOMP, EAFNOSUPPORT, EAFNOSUPPORT, "socket(AF_NETLINK)"},
    /* Root's id is not mapped inside; without namespaces a container's root may stay what it is. */
    {PROOF_BECOME_ROOT, BOX_LAYER_PRIVILEGES, EINVAL, NOT_ASKED, "setuid(0)"},
    {PROOF_MEMFD, BOX_LAYER_SECCOMP, NOT_ASKED, ENOSYS, "memfd_create()"},
    {PROOF_PRIORITY, BOX_LAYER_SECCOMP, NOT_ASKED, EPERM, "setpriority() of another process"},
    {PROOF_SIGNAL_PARENT, BOX_LAYER_SECCOMP, NOT_ASKED, EPERM, "kill() of the guardian"},
    {PROOF_CANARY, BOX_LAYER_MOUNTS, REFUSED, NOT_ASKED, "reading a file of the server"},
    {PROOF_CANARY, BOX_LAYER_LANDLOCK, NOT_ASKED, REFUSED, "reading a file of the server"},
};

void proof_found(struct proof_verdict *verdict, enum box_layer layer, const char *fmt, ...)
{
    if (!verdict->found[layer][0]) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(verdict->found[layer], sizeof verdict->found[layer], fmt, args);
        va_end(args);
    }
}

static void judge_step(const struct proof_record *record, struct proof_verdict *verdict)
{
    static const struct {
        enum wire_step step;
        enum box_layer layer;
        const char *what;
    } steps[] = {
        {WIRE_STEP_SESSION, BOX_LAYER_PRIVILEGES, "a new session cannot be had"},
        {WIRE_STEP_LIMITS, BOX_LAYER_PRIVILEGES, "resource limits cannot be set"},
        {WIRE_STEP_DESCRIPTORS, BOX_LAYER_PRIVILEGES, "descriptors cannot be arranged"},
        {WIRE_STEP_SECCOMP, BOX_LAYER_SECCOMP, "the filters cannot be installed"},
        {WIRE_STEP_LANDLOCK, BOX_LAYER_LANDLOCK, "a domain cannot be had"},
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (record->step == (int32_t)steps[i].step) {
            proof_found(verdict, steps[i].layer, "%s: %s", steps[i].what, strerror(record->error));
            return;
        }
    }
    proof_found(verdict, BOX_LAYER_PRIVILEGES, "the probe ended at step %d", record->step);
}

static void judge_attempts(const struct proof_record *record,
                           const struct proof_expectation *expected, struct proof_verdict *verdict)
{
    bool container = expected->profile == BOX_CONTAINER;
    for (unsigned i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        int error = record->attempts[attempts[i].attempt];
        int wanted = container ? attempts[i].error_without : attempts[i].error;
        if (wanted != NOT_ASKED && error != wanted && (wanted != REFUSED || error == 0)) {
            proof_found(verdict, attempts[i].layer, "%s %s%s", attempts[i].what,
                        error ? "is refused otherwise than by us: " : "works",
                        error ? strerror(error) : "");
        }
    }
    /* A read-only root, the box's or the container's, or Landlock before it. */
    int error = record->attempts[PROOF_WRITE_ROOT];
    if (error != EACCES && error != EROFS) {
        proof_found(verdict, container ? BOX_LAYER_LANDLOCK : BOX_LAYER_MOUNTS,
                    "/etc can be written: %s", error ? strerror(error) : "a file was made");
    }
}

/* An attempt that worked before the confinement must end with the error after it. One shown effect is
 * enough: where the host's own permissions forbid one attempt, it says nothing. */
static void judge_landlock(const struct proof_record *record,
                           const struct proof_expectation *expected, struct proof_verdict *verdict)
{
    int abi = expected->landlock_abi;
    bool container = expected->profile == BOX_CONTAINER;
    const struct {
        bool asked;
        int32_t before;
        enum proof_attempt attempt;
        int error;
        const char *finding;
    } effects[] = {
        {true, record->write_device_before, PROOF_WRITE_DEVICE, EACCES,
         "a file that only it protects can be written"},
        {container, record->read_proc_before, PROOF_READ_PROC, EACCES,
         "a file that only it protects can be read"},
        {abi >= LANDLOCK_ABI_SCOPES, record->signal_parent_before, PROOF_SIGNAL_PARENT, EPERM,
         "signals leave its domain"},
    };
    bool shown = false;
    verdict->signals_pass =
        abi < LANDLOCK_ABI_SCOPES && record->attempts[PROOF_SIGNAL_PARENT] != EPERM;
    for (unsigned i = 0; abi >= LANDLOCK_ABI_LEAST && i < sizeof effects / sizeof *effects; i++) {
        if (!effects[i].asked || effects[i].before != 0) {
            continue;
        }
        shown = true;
        if (record->attempts[effects[i].attempt] != effects[i].error) {
            proof_found(verdict, BOX_LAYER_LANDLOCK, "%s", effects[i].finding);
        }
    }
    if (abi >= LANDLOCK_ABI_LEAST && !shown) {
        proof_found(verdict, BOX_LAYER_LANDLOCK, "its effect cannot be shown");
    }
}

/* The five sets. An ordinary user cannot empty the bounding one, which gives nothing by itself where there
 * are no new privileges; in a namespace of its own everybody can, and does. */
static void judge_capabilities(const uint64_t sets[5], const char *whose,
                               const struct proof_expectation *expected,
                               struct proof_verdict *verdict)
{
    enum { BOUNDING = 3 };
    for (unsigned i = 0; i < 5; i++) {
        if (sets[i] && !(i == BOUNDING && expected->profile == BOX_CONTAINER)) {
            proof_found(verdict, BOX_LAYER_PRIVILEGES, "%s: %llx in set %u", whose,
                        (unsigned long long)sets[i], i);
        }
    }
}

static void judge_privileges(const struct proof_record *record,
                             const struct proof_expectation *expected,
                             struct proof_verdict *verdict)
{
    bool container = expected->profile == BOX_CONTAINER;
    uid_t uid = container ? expected->outside_uid : PLAN_INSIDE_ID;
    gid_t gid = container ? expected->outside_gid : PLAN_INSIDE_ID;
    judge_capabilities(record->capabilities, "capabilities are left", expected, verdict);
    if (record->no_new_privs != 1) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "no_new_privs is %d", record->no_new_privs);
    }
    if (record->uid != uid || record->gid != gid) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "the ids are %u:%u", record->uid, record->gid);
    }
    if (record->descriptors != DESCRIPTORS || record->odd_descriptors) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "%u descriptors are open, %u of them not ours",
                    record->descriptors, record->odd_descriptors);
    }
    if (record->seccomp_mode != SECCOMP_MODE_IS_FILTER) {
        proof_found(verdict, BOX_LAYER_SECCOMP, "its mode is %d", record->seccomp_mode);
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

static void judge_files(const struct proof_record *record, const struct file_id *host,
                        struct proof_verdict *verdict)
{
    for (unsigned i = 0; i < PROOF_FOLDER_COUNT; i++) {
        if (is_there(host[i]) && same_file(host[i], record->folders[i])) {
            proof_found(verdict, BOX_LAYER_MOUNTS, "%s is the host's own", folder_names[i]);
        }
    }
    for (unsigned i = 0; i < PROOF_MOUNT_COUNT; i++) {
        if ((record->mount_flags[i] & mounts[i].flags) != mounts[i].flags) {
            proof_found(verdict, BOX_LAYER_MOUNTS, "%s lacks mount flags: %llx", mounts[i].path,
                        (unsigned long long)record->mount_flags[i]);
        }
    }
}

/* A folder that is not there is the code's matter and no finding: it can vanish at any time. */
static void judge_data(const struct proof_record *record, const struct proof_expectation *expected,
                       struct proof_verdict *verdict)
{
    for (unsigned i = 0; i < expected->data_count; i++) {
        bool writable = expected->data_writable >> i & 1;
        uint64_t wanted = ST_NOSUID | ST_NODEV | ST_NOEXEC | (writable ? 0 : ST_RDONLY);
        uint64_t flags = record->data_flags[i];
        if (expected->profile != BOX_CONTAINER && flags && (flags & wanted) != wanted) {
            proof_found(verdict, BOX_LAYER_MOUNTS, "%s lacks mount flags: %llx", expected->data[i],
                        (unsigned long long)flags);
        }
        if (flags && !writable && record->data_write[i] == 0) {
            proof_found(verdict, BOX_LAYER_MOUNTS, "%s can be written", expected->data[i]);
        }
    }
}

static void judge_limits(const struct proof_record *record,
                         const struct proof_expectation *expected, struct proof_verdict *verdict)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = rlimits_wanted(&expected->sizes, wanted);
    for (unsigned i = 0; i < count; i++) {
        if (record->limits_soft[i] > wanted[i].soft || record->limits_hard[i] > wanted[i].hard) {
            proof_found(verdict, BOX_LAYER_PRIVILEGES, "resource limit %s is %llu", wanted[i].name,
                        (unsigned long long)record->limits_hard[i]);
        }
    }
}

void proof_judge_record(const struct proof_record *record, size_t size,
                        const struct proof_expectation *expected, struct proof_verdict *verdict)
{
    if (size != sizeof *record || record->magic != PROOF_MAGIC) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "the start-up probe ended without an answer");
        return;
    }
    if (record->step != WIRE_STEP_NONE) {
        judge_step(record, verdict);
        return;
    }
    judge_attempts(record, expected, verdict);
    judge_landlock(record, expected, verdict);
    judge_privileges(record, expected, verdict);
    if (expected->profile != BOX_CONTAINER) {
        judge_files(record, expected->folders, verdict);
    }
    judge_data(record, expected, verdict);
    judge_limits(record, expected, verdict);
}

static void judge_surrounding(const struct proof_view *interpreter, const struct proof_view *server,
                              struct proof_verdict *verdict)
{
    for (unsigned i = 0; i < PROOF_NS_COUNT; i++) {
        struct file_id id = interpreter->namespaces[i];
        if (!is_there(id) || same_file(id, server->namespaces[i])) {
            proof_found(verdict, BOX_LAYER_NAMESPACES, "the %s namespace is the host's own",
                        namespace_names[i]);
        }
    }
    if (!same_file(interpreter->control, interpreter->namespaces[PROOF_NS_NET])) {
        proof_found(verdict, BOX_LAYER_NAMESPACES,
                    "the interpreter's control socket is of another network");
    }
    if (!is_there(interpreter->root) || same_file(interpreter->root, server->root)) {
        proof_found(verdict, BOX_LAYER_MOUNTS, "/ is the host's own");
    }
}

void proof_judge_view(const struct proof_view *interpreter,
                      const struct proof_expectation *expected, struct proof_verdict *verdict)
{
    const struct proof_view *server = &expected->server;
    if (expected->profile != BOX_CONTAINER) {
        judge_surrounding(interpreter, server, verdict);
    }
    judge_capabilities(interpreter->capabilities, "the interpreter has capabilities", expected,
                       verdict);
    if (interpreter->no_new_privs != 1) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "the interpreter's NoNewPrivs is %lld",
                    (long long)interpreter->no_new_privs);
    }
    if (interpreter->uid != expected->outside_uid || interpreter->gid != expected->outside_gid) {
        proof_found(verdict, BOX_LAYER_PRIVILEGES, "the interpreter's ids outside are %llu:%llu",
                    (unsigned long long)interpreter->uid, (unsigned long long)interpreter->gid);
    }
    if (interpreter->seccomp_mode != SECCOMP_MODE_IS_FILTER) {
        proof_found(verdict, BOX_LAYER_SECCOMP, "the interpreter's mode is %lld",
                    (long long)interpreter->seccomp_mode);
    }
    int64_t filters = interpreter->seccomp_filters - server->seccomp_filters;
    int64_t wanted = FILTERS + (expected->memory_watched ? 1 : 0);
    /* The one that asks about signals is left out where the container around has a listener of its own. */
    bool asks = expected->profile != BOX_CONTAINER && expected->landlock_abi < LANDLOCK_ABI_SCOPES;
    if (server->seccomp_filters >= 0 && filters != wanted && !(asks && filters == wanted + 1)) {
        proof_found(verdict, BOX_LAYER_SECCOMP, "%lld filters are installed, not %lld",
                    (long long)filters, (long long)wanted);
    }
}
