/* The programs of level container as data (the others:
 * tests/unit/sandbox/policy/test_filter_program.c): which calls are notified, which are refused
 * before that, and that none is allowed that level full refuses. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "tests/unit/program.h"
#include "tests/unit/unit.h"

enum {
    ARGUMENTS = 6,
    NUMBERS = 1024,
    ALLOW = PROGRAM_ALLOW,
    ASK = PROGRAM_ASK,
    PRETEND = PROGRAM_PRETEND
};

/* Versions of Landlock, and whether there is an egress proxy. */
static const struct filter_container kinds[] = {{2, false}, {5, false}, {7, false}, {7, true}};
enum { OLD, NO_SCOPES, NEW, EGRESS, KINDS };

static const uint32_t architectures[] = {
    AUDIT_ARCH_AARCH64,
#ifdef __x86_64__
    AUDIT_ARCH_X86_64,
#endif
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

static struct filters {
    struct filter_program notified;
    struct filter_program arguments;
    struct filter_program names;
} all[ARCHITECTURES][KINDS];

static struct filters full[ARCHITECTURES];

static int build_all(void **)
{
    struct fail fail = {};
    int r = seccomp_api_set(5); /* with notifications; these programs are never installed */
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        uint32_t arch = architectures[i];
        full[i].names.arch = full[i].arguments.arch = arch;
        r = r ? r : filter_build_names(&full[i].names, &fail);
        r = r ? r : filter_build_arguments(/* landlock= */ true, &full[i].arguments, &fail);
        for (unsigned k = 0; k < KINDS; k++) {
            struct filters *f = &all[i][k];
            f->notified.arch = f->arguments.arch = f->names.arch = arch;
            r = r ? r : filter_build_notified(&kinds[k], &f->notified, &fail);
            r = r ? r : filter_build_container_arguments(&kinds[k], &f->arguments, &fail);
            r = r ? r : filter_build_container_names(&f->names, &fail);
        }
    }
    return r;
}

static void release(struct filters *filters)
{
    free(filters->notified.program);
    free(filters->arguments.program);
    free(filters->names.program);
}

static int release_all(void **)
{
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        release(&full[i]);
        for (unsigned k = 0; k < KINDS; k++) {
            release(&all[i][k]);
        }
    }
    return 0;
}

/* The result of all three: a refusal takes precedence over a notification, and the last installed
 * filter over the others, seccomp(2). */
static int guest_action(const struct filters *filters, const struct seccomp_data *call)
{
    int by_name = program_action(&filters->names, call);
    int by_argument = program_action(&filters->arguments, call);
    if (by_name != ALLOW) {
        return by_name;
    }
    if (by_argument != ALLOW || !filters->notified.program) {
        return by_argument;
    }
    return program_action(&filters->notified, call);
}

#define HIGH_BITS 0x100000000ULL

static const struct row {
    const char *name;
    uint64_t arguments[ARGUMENTS];
    int actions[KINDS];
} rows[] = {
    /* attributes */
    {"chmod", {0, 0755}, {ASK, ASK, ASK, ASK}},
    {"chmod", {0, 04755}, {EPERM, EPERM, EPERM, EPERM}},
    {"fchmod", {3, 0644}, {ASK, ASK, ASK, ASK}},
    {"fchmod", {3, 02644}, {EPERM, EPERM, EPERM, EPERM}},
    {"fchmodat", {3, 0, 0644}, {ASK, ASK, ASK, ASK}},
    {"fchmodat2", {3, 0, 0644, 0}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"utime", {0, 0}, {ASK, ASK, ASK, ASK}},
    {"utimes", {0, 0}, {ASK, ASK, ASK, ASK}},
    {"futimesat", {0, 0}, {ASK, ASK, ASK, ASK}},
    {"utimensat", {0, 0, 0, 0}, {ASK, ASK, ASK, ASK}},
    {"truncate", {0, 0}, {ASK, ALLOW, ALLOW, ALLOW}},
    {"ftruncate", {3, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"openat", {0, 0, O_RDONLY | O_TRUNC}, {EPERM, ALLOW, ALLOW, ALLOW}},
    {"openat", {0, 0, O_WRONLY | O_TRUNC}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"openat", {0, 0, O_ACCMODE | O_TRUNC}, {EPERM, EPERM, EPERM, EPERM}},
    {"fchown", {3, 0, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"fchownat", {3, 0, 0, 0, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"setxattr", {0}, {ENOTSUP, ENOTSUP, ENOTSUP, ENOTSUP}},
    {"getxattr", {0}, {ENOTSUP, ENOTSUP, ENOTSUP, ENOTSUP}},
    {"fsetxattr", {0}, {ENOTSUP, ENOTSUP, ENOTSUP, ENOTSUP}},
    {"fgetxattr", {0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"ioctl", {3, TCGETS}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"ioctl", {3, HIGH_BITS | FIONREAD}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"ioctl", {3, FS_IOC_GETFLAGS}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"ioctl", {3, FS_IOC_SETFLAGS}, {ENOTTY, ENOTTY, ENOTTY, ENOTTY}},
    {"ioctl", {3, FS_IOC_FSSETXATTR}, {ENOTTY, ENOTTY, ENOTTY, ENOTTY}},
    {"ioctl", {3, 0x40806685 /* FS_IOC_ENABLE_VERITY */}, {ENOTTY, ENOTTY, ENOTTY, ENOTTY}},
    {"ioctl", {3, TIOCSTI}, {ENOTTY, ENOTTY, ENOTTY, ENOTTY}},
    {"ioctl", {3, FIOASYNC}, {ENOTTY, ENOTTY, ENOTTY, ENOTTY}},
    /* memory that no process's figures contain */
    {"memfd_create", {0, 0}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"fcntl", {3, F_SETPIPE_SZ, 1 << 20}, {EPERM, EPERM, EPERM, EPERM}},
    {"fcntl", {3, F_GETFL}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"fcntl", {3, F_SETOWN}, {EINVAL, EINVAL, EINVAL, EINVAL}},
    /* forks */
    {"clone", {SIGCHLD}, {ASK, ASK, ASK, ASK}},
    {"clone", {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES}, {ASK, ASK, ASK, ASK}},
    {"clone", {SIGCHLD | CLONE_NEWUSER}, {EPERM, EPERM, EPERM, EPERM}},
    {"clone", {SIGCHLD | CLONE_PTRACE}, {EPERM, EPERM, EPERM, EPERM}},
    {"clone3", {0, 88}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"fork", {0}, {ASK, ASK, ASK, ASK}},
    {"vfork", {0}, {ASK, ASK, ASK, ASK}},
    /* signals: from version 6 on Landlock handles them */
    {"kill", {2, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"tkill", {2, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"tgkill", {2, 2, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"rt_sigqueueinfo", {2, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"rt_tgsigqueueinfo", {2, 2, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"pidfd_send_signal", {3, 9}, {ASK, ASK, ALLOW, ALLOW}},
    {"prctl", {PR_SET_DUMPABLE, 0}, {EINVAL, EINVAL, EINVAL, EINVAL}},
    {"prctl", {78 /* PR_FUTEX_HASH */, 1, 16}, {EINVAL, EINVAL, EINVAL, EINVAL}},
    {"fcntl", {3, F_SET_RW_HINT}, {EPERM, EPERM, EPERM, EPERM}},
    {"prctl", {PR_SET_CHILD_SUBREAPER, 1}, {EPERM, EPERM, EPERM, EPERM}},
    {"prctl", {PR_SET_PDEATHSIG, SIGKILL}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"prctl", {PR_SET_PDEATHSIG, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"prctl", {PR_SET_PDEATHSIG, SIGUSR1}, {EPERM, EPERM, EPERM, EPERM}},
    {"prctl", {PR_SET_NAME, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"prlimit64", {2}, {EPERM, EPERM, EPERM, EPERM}},
    {"setpriority", {0, 2}, {EPERM, EPERM, EPERM, EPERM}},
    {"setpriority", {2, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"sched_setaffinity", {2}, {EPERM, EPERM, EPERM, EPERM}},
    {"sched_setscheduler", {2, SCHED_IDLE}, {EPERM, EPERM, EPERM, EPERM}},
    {"sched_setscheduler", {2, SCHED_OTHER}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"sched_setscheduler", {0, SCHED_IDLE}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"sched_setscheduler", {0, SCHED_FIFO}, {EPERM, EPERM, EPERM, EPERM}},
    {"sched_setparam", {2}, {EPERM, EPERM, EPERM, EPERM}},
    {"splice", {3, 0, 4, 0, 1}, {EINVAL, EINVAL, EINVAL, EINVAL}},
    {"shmget", {0, 4096}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"shmat", {0}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
    {"capset", {0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"ioprio_set", {1, 2}, {EPERM, EPERM, EPERM, EPERM}},
    /* sockets */
    {"socket", {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"socket", {AF_UNIX, SOCK_DGRAM, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"socket", {AF_UNIX, SOCK_SEQPACKET, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"socket", {AF_INET, SOCK_STREAM, 0}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, ASK}},
    {"socket",
     {AF_INET, SOCK_STREAM, IPPROTO_TCP},
     {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, ASK}},
    {"socket", {AF_INET, SOCK_DGRAM, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"socket",
     {AF_INET, SOCK_STREAM, 262},
     {EPROTONOSUPPORT, EPROTONOSUPPORT, EPROTONOSUPPORT, EPROTONOSUPPORT}},
    {"socket",
     {HIGH_BITS | AF_INET, SOCK_STREAM, 0},
     {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
    {"socket",
     {AF_INET6, SOCK_STREAM, 0},
     {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
    {"socket",
     {AF_NETLINK, SOCK_STREAM, 0},
     {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
    {"socket",
     {AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 15},
     {EPROTONOSUPPORT, EPROTONOSUPPORT, EPROTONOSUPPORT, EPROTONOSUPPORT}},
    {"socket",
     {AF_VSOCK, SOCK_STREAM, 0},
     {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
    {"socketpair", {AF_UNIX, SOCK_STREAM, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"socketpair", {AF_UNIX, SOCK_SEQPACKET, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"socketpair", {AF_UNIX, SOCK_DGRAM, 0}, {EPERM, EPERM, EPERM, EPERM}},
    {"connect", {3, 0, 16}, {ASK, ASK, ASK, ASK}},
    {"bind", {3, 0, 16}, {ASK, ASK, ASK, ASK}},
    {"sendto", {3, 0, 1, 0, 0, 0}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"sendto", {3, 0, 1, 0, 4096, 16}, {EPERM, EPERM, EPERM, EPERM}},
    {"setsockopt", {3, IPPROTO_TCP, TCP_ULP}, {ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT}},
    {"setsockopt", {3, IPPROTO_TCP, TCP_NODELAY}, {ALLOW, ALLOW, ALLOW, PRETEND}},
    {"setsockopt", {3, SOL_SOCKET, SO_KEEPALIVE}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"personality", {0xffffffff}, {ALLOW, ALLOW, ALLOW, ALLOW}},
    {"personality", {0x0040000}, {ENOSYS, ENOSYS, ENOSYS, ENOSYS}},
};

/* A libseccomp older than fchmodat2 cannot name it, so the call gets the default. */
static void each_row_holds(void **)
{
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        for (unsigned at = 0; at < sizeof rows / sizeof *rows; at++) {
            struct seccomp_data call = {.arch = architectures[i]};
            call.nr = seccomp_syscall_resolve_name_arch(call.arch, rows[at].name);
            memcpy(call.args, rows[at].arguments, sizeof rows[at].arguments);
            for (unsigned k = 0; call.nr >= 0 && k < KINDS; k++) {
                int said = guest_action(&all[i][k], &call);
                if (said != rows[at].actions[k]) {
                    fail_msg("%s on %#x, row %u, kind %u: %d instead of %d", rows[at].name,
                             call.arch, at, k, said, rows[at].actions[k]);
                }
            }
        }
    }
}

/* Every call that level full refuses with these arguments is refused here. */
static void no_call_is_allowed_that_full_isolation_refuses(void **)
{
    static const uint64_t patterns[] = {0, 1, 2, 0xffffffff, 04755, 0x8901, ~0ULL, CLONE_NEWUSER};
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        for (unsigned k = 0; k < KINDS; k++) {
            for (int number = 0; number < NUMBERS * 8; number++) {
                struct seccomp_data call = {.arch = architectures[i], .nr = number / 8};
                for (unsigned n = 0; n < ARGUMENTS; n++) {
                    call.args[n] = patterns[number % 8];
                }
                if (guest_action(&full[i], &call) != ALLOW) {
                    int said = guest_action(&all[i][k], &call);
                    assert_true(said > ALLOW);
                }
            }
        }
    }
}

static void calls_of_another_architecture_are_absent(void **)
{
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        for (int number = 0; number < NUMBERS; number++) {
            struct seccomp_data call = {.nr = number, .arch = AUDIT_ARCH_I386};
            const struct filters *f = &all[i][NEW];
            assert_int_equal(program_action(&f->notified, &call), ENOSYS);
            assert_int_equal(program_action(&f->arguments, &call), ENOSYS);
            assert_int_equal(program_action(&f->names, &call), ENOSYS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_holds),
        cmocka_unit_test(no_call_is_allowed_that_full_isolation_refuses),
        cmocka_unit_test(calls_of_another_architecture_are_absent),
    };
    return cmocka_run_group_tests(tests, build_all, release_all);
}
