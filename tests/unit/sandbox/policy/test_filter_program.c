/* The compiled filters as data, for each architecture that is built, on any machine: the test
 * interprets the programs, so no kernel sees the calls. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/plan/plan.h"
#include "sandbox/policy/filter.h"
#include "tests/unit/program.h"
#include "tests/unit/unit.h"

enum { ARGUMENTS = 6, NUMBERS = 1024, ALLOW = PROGRAM_ALLOW };

struct filters {
    uint32_t arch;
    struct filter_program names;
    struct filter_program arguments;
    struct filter_program init;
};

/* libseccomp translates this machine's numbers: a machine with the generic table, which lacks many
 * calls of x86-64, can build only its own filter. */
static struct filters all[] = {
    {.arch = AUDIT_ARCH_AARCH64},
#ifdef __x86_64__
    {.arch = AUDIT_ARCH_X86_64},
#endif
};
enum { ARCHITECTURES = sizeof all / sizeof *all };

static int build_all(void **)
{
    struct fail fail = {};
    /* libseccomp would ask the kernel which actions it may use (3: KILL_PROCESS); these programs
     * run nowhere. */
    int r = seccomp_api_set(3);
    for (unsigned i = 0; r == 0 && i < ARCHITECTURES; i++) {
        struct filters *f = &all[i];
        f->names.arch = f->arguments.arch = f->init.arch = f->arch;
        r = filter_build_names(&f->names, &fail);
        r = r ? r : filter_build_arguments(/* landlock= */ true, &f->arguments, &fail);
        r = r ? r : filter_build_init(&f->init, &fail);
    }
    return r;
}

static int release_all(void **)
{
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        free(all[i].names.program);
        free(all[i].arguments.program);
        free(all[i].init.program);
    }
    return 0;
}

/* The action of the guest's two filters; where both refuse, the one that was installed last
 * determines the errno, seccomp(2). */
static int guest_action(const struct filters *filters, const struct seccomp_data *call)
{
    int by_name = program_action(&filters->names, call);
    return by_name != ALLOW ? by_name : program_action(&filters->arguments, call);
}

static bool listed(uint32_t arch, const char *const *names, int number)
{
    for (; *names; names++) {
        if (seccomp_syscall_resolve_name_arch(arch, *names) == number) {
            return true;
        }
    }
    return false;
}

/* Every number of every architecture, listed or not. */
static void each_number_gets_the_action_of_its_list(void **)
{
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        uint32_t arch = all[i].arch;
        unsigned allowed = 0;
        for (int number = 0; number < NUMBERS; number++) {
            struct seccomp_data call = {.nr = number, .arch = arch};
            bool ours = listed(arch, syscalls_allowed, number);
            bool refused = listed(arch, syscalls_refused, number);
            bool unsuited = listed(arch, syscalls_unsuited, number);
            int other = refused ? EPERM : unsuited ? EINVAL : ENOSYS;
            bool of_init = listed(arch, syscalls_init, number);
            if (number == seccomp_syscall_resolve_name_arch(arch, "personality")) {
                ours = true; /* allowed with this argument */
            }
            assert_true(ours + refused + unsuited <= 1);
            assert_int_equal(program_action(&all[i].names, &call), ours ? ALLOW : other);
            assert_int_equal(program_action(&all[i].init, &call), ours || of_init ? ALLOW : other);
            allowed += ours;
        }
        assert_in_range(allowed, 180, 320);
    }
}

static void calls_of_another_architecture_are_absent(void **)
{
    static const uint32_t others[][4] = {
        {AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, 0},
        {AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM, 0},
    };
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        for (int number = 0; number < NUMBERS; number++) {
            for (const uint32_t *other = others[i]; *other; other++) {
                struct seccomp_data call = {.nr = number, .arch = *other};
                assert_int_equal(program_action(&all[i].names, &call), ENOSYS);
                assert_int_equal(program_action(&all[i].arguments, &call), ENOSYS);
                assert_int_equal(program_action(&all[i].init, &call), ENOSYS);
            }
        }
    }
#ifdef __x86_64__
    /* x32 has the architecture of its kernel and its own numbers. */
    for (int number = 0; number < NUMBERS; number++) {
        struct seccomp_data call = {.nr = 0x40000000 | number, .arch = AUDIT_ARCH_X86_64};
        assert_int_equal(guest_action(&all[1], &call), ENOSYS);
    }
#endif
}

#define HIGH_BITS 0x100000000ULL

static const struct row {
    const char *name;
    uint64_t arguments[ARGUMENTS];
    int action;
} rows[] = {
    {"clone", {SIGCHLD}, ALLOW},
    {"clone", {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES}, ALLOW},
    {"clone", {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND}, EPERM},
    {"close_range", {3, ~0U, CLOSE_RANGE_CLOEXEC}, ALLOW},
    {"close_range", {3, ~0U, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC}, EINVAL},
    {"clone", {SIGCHLD | CLONE_NEWUSER}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWNS}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWPID}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWNET}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWIPC}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWUTS}, EPERM},
    {"clone", {SIGCHLD | CLONE_NEWCGROUP}, EPERM},
    {"clone", {SIGCHLD | CLONE_PTRACE}, EPERM},
    {"clone", {SIGCHLD, CLONE_NEWUSER, CLONE_NEWUSER}, ALLOW}, /* the flags come first everywhere */
    {"clone3", {0, 88}, ENOSYS},
    {"unshare", {CLONE_NEWUSER}, EPERM},
    {"openat", {0, 0, O_RDONLY, 04755}, ALLOW},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 0644}, ALLOW},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 04755}, EPERM},
    {"openat", {0, 0, O_CREAT | O_WRONLY, 02755}, EPERM},
    {"openat", {0, 0, O_TMPFILE | O_WRONLY, 02755}, EPERM},
    {"openat", {0, 0, O_DIRECTORY, 02755}, ALLOW},
    {"openat", {0, 0, O_ACCMODE}, EPERM},
    {"openat2", {0, 0, 0, 24}, ENOSYS},
    {"open", {0, O_CREAT, 04755}, EPERM},
    {"creat", {0, 04755}, EPERM},
    {"chmod", {0, 04755}, EPERM},
    {"chmod", {0, 0755}, ALLOW},
    {"fchmod", {0, 02000}, EPERM},
    {"fchmodat", {0, 0, 04755}, EPERM},
    {"fchmodat", {0, 0, 0755}, ALLOW},
    {"fchmodat2", {0, 0, 04755, 0}, ENOSYS},
    {"mkdirat", {0, 0, 02755}, EPERM},
    {"mknodat", {0, 0, S_IFIFO | 0644}, ALLOW},
    {"mknodat", {0, 0, S_IFCHR | 0644}, EPERM},
    {"mknodat", {0, 0, S_IFBLK | 0644}, EPERM},
    {"ioctl", {0, FIONREAD}, ALLOW},
    {"ioctl", {0, HIGH_BITS | FIONREAD}, ALLOW},
    {"ioctl", {0, 0x802c542a /* TCGETS2 */}, ALLOW},
    {"ioctl", {FIONREAD, 0}, ENOTTY},
    {"ioctl", {0, TIOCSTI}, ENOTTY},
    {"ioctl", {0, HIGH_BITS | TIOCSTI}, ENOTTY},
    {"ioctl", {0, TIOCSCTTY}, ALLOW},
    {"ioctl", {0, TIOCGPTPEER}, ALLOW},
    {"ioctl", {0, TIOCSETD}, ENOTTY},
    {"ioctl", {0, TIOCSIG}, ENOTTY},
    {"fcntl", {0, F_GETFL}, ALLOW},
    {"fcntl", {0, F_SETPIPE_SZ}, ALLOW},
    {"fcntl", {0, F_SETOWN}, EINVAL},
    {"fcntl", {0, F_SETLEASE}, EINVAL},
    {"prctl", {PR_SET_NAME}, ALLOW},
    {"prctl", {PR_SET_CHILD_SUBREAPER, 1}, ALLOW},
    {"prctl", {PR_SET_PDEATHSIG, 0}, ALLOW},
    {"prctl", {PR_SET_SECCOMP}, EINVAL},
    {"prctl", {PR_SET_DUMPABLE}, EINVAL},
    {"prctl", {HIGH_BITS | PR_SET_PTRACER}, EINVAL},
    {"madvise", {0, 0, MADV_FREE}, ALLOW},
    {"madvise", {0, 0, MADV_MERGEABLE}, EINVAL},
    {"prlimit64", {0}, ALLOW},
    {"prlimit64", {2}, EPERM},
    {"mmap", {0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS}, ALLOW},
    {"mmap", {0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB}, EPERM},
    {"personality", {0xffffffff}, ALLOW},
    {"personality", {0x0040000}, ENOSYS},
    {"socket", {AF_UNIX, SOCK_STREAM, 0}, ALLOW},
    {"socket", {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP}, ALLOW},
    {"socket", {AF_INET, SOCK_RAW, 0}, EPERM},
    {"socket", {AF_NETLINK, SOCK_DGRAM, 0}, ALLOW},
    {"socket", {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}, ALLOW},
    {"socket", {AF_NETLINK, SOCK_RAW, 6}, EPROTONOSUPPORT},
    {"socket", {AF_NETLINK, SOCK_RAW, HIGH_BITS}, EPROTONOSUPPORT},
    {"socket", {HIGH_BITS | AF_NETLINK, SOCK_DGRAM, 0}, EAFNOSUPPORT},
    {"socket", {AF_INET6, SOCK_RAW, 0}, EPERM},
    {"socketpair", {AF_NETLINK, SOCK_DGRAM, 0}, EAFNOSUPPORT},
    {"socket", {AF_VSOCK, SOCK_STREAM, 0}, EAFNOSUPPORT},
    {"socket", {AF_ALG, SOCK_SEQPACKET, 0}, EAFNOSUPPORT},
    {"socket", {AF_INET, SOCK_STREAM, 262}, EPROTONOSUPPORT},
    {"socketpair", {AF_UNIX, SOCK_STREAM, 0}, ALLOW},
    {"socketpair", {AF_INET, SOCK_STREAM, 0}, EAFNOSUPPORT},
    {"setsockopt", {0, IPPROTO_TCP, TCP_NODELAY}, ALLOW},
    {"setsockopt", {0, IPPROTO_TCP, TCP_ULP}, ENOPROTOOPT},
    {"setsockopt", {0, SOL_SOCKET, SO_ATTACH_FILTER}, ENOPROTOOPT},
    {"setsockopt", {0, HIGH_BITS | SOL_SOCKET, HIGH_BITS | SO_ATTACH_FILTER}, ENOPROTOOPT},
    {"setsockopt", {0, HIGH_BITS | SOL_SOCKET, HIGH_BITS | SO_KEEPALIVE}, ALLOW},
    {"setsockopt", {0, SOL_SOCKET, SO_SNDBUF}, PROGRAM_PRETEND},
    {"setsockopt", {0, HIGH_BITS | SOL_SOCKET, HIGH_BITS | SO_RCVBUF}, PROGRAM_PRETEND},
    {"setsockopt", {0, SOL_SOCKET, 200}, ENOPROTOOPT},
    {"setsockopt", {0, IPPROTO_IPV6, IPV6_V6ONLY}, ALLOW},
    {"setsockopt", {0, 263, SO_KEEPALIVE}, ENOPROTOOPT},
    {"fcntl", {0, F_OFD_SETLKW}, EINVAL},
    {"fcntl", {0, F_SETLK}, ALLOW},
    {"setxattr", {0, 0, 0, 256, 0}, ALLOW},
    {"setxattr", {0, 0, 0, 257, 0}, ENOTSUP},
    {"fsetxattr", {0, 0, 0, HIGH_BITS, 0}, ENOTSUP},
    {"landlock_create_ruleset", {0, 0, 1}, ENOSYS},
    {"landlock_add_rule", {3, 1}, ENOSYS},
    {"landlock_restrict_self", {3, 0}, ALLOW},
    {"sched_setscheduler", {0, SCHED_BATCH}, ALLOW},
    {"sched_setscheduler", {2, SCHED_OTHER}, ALLOW},
    {"sched_setscheduler", {2, SCHED_BATCH}, EPERM},
    {"sched_setscheduler", {2, HIGH_BITS}, EPERM},
    {"sched_setscheduler", {0, SCHED_FIFO}, EPERM},
    {"sched_setscheduler", {0, HIGH_BITS | SCHED_FIFO}, EPERM},
    {"sched_setparam", {0}, ALLOW},
    {"sched_setparam", {2}, EPERM},
    {"capset", {0}, ALLOW},
    {"splice", {3, 0, 4, 0, 1}, EINVAL},
    {"ptrace", {0}, EPERM},
    {"bpf", {0}, EPERM},
    {"io_uring_setup", {1, 0}, ENOSYS},
    {"shmget", {0, 1 << 20, 0}, ALLOW},
    {"shmget", {0, (1 << 20) + 1, 0}, EINVAL},
    {"shmget", {0, HIGH_BITS, 0}, EINVAL},
    {"shmget", {0, 4096, SHM_HUGETLB}, EPERM},
    {"shmctl", {1, IPC_RMID}, ALLOW},
    {"shmctl", {1, SHM_LOCK}, EPERM},
    {"semget", {0}, ENOSYS},
};

static void each_row_holds_on_each_architecture(void **)
{
    /* Calls that the generic table of numbers lacks. */
    static const char *const older[] = {"open", "creat", "chmod"};
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        unsigned absent = 0;
        for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++) {
            struct seccomp_data call = {.arch = all[i].arch};
            call.nr = seccomp_syscall_resolve_name_arch(all[i].arch, rows[k].name);
            if (call.nr < 0) {
                absent++;
                bool known = false;
                for (unsigned n = 0; n < 3; n++) {
                    known = known || strcmp(older[n], rows[k].name) == 0;
                }
                if (!known || all[i].arch == AUDIT_ARCH_X86_64) {
                    /* Newer than this libseccomp: ENOSYS by default. */
                    assert_int_equal(rows[k].action, ENOSYS);
                }
                continue;
            }
            for (unsigned n = 0; n < ARGUMENTS; n++) {
                call.args[n] = rows[k].arguments[n];
            }
            int said = guest_action(&all[i], &call);
            if (said != rows[k].action) {
                fail_msg("%s on %#x, row %u: %d instead of %d", rows[k].name, all[i].arch, k, said,
                         rows[k].action);
            }
        }
        assert_true(absent < 8);
    }
}

/* Counts what each list allows, so that an option which a new header names is not among them. */
static void options_are_let_through_by_name_only(void **)
{
    static const struct {
        const char *name;
        unsigned argument;
        int error;
        unsigned allowed;
        unsigned level;
    } lists[] = {
        {"prctl", 0, EINVAL, 22},
        {"fcntl", 1, EINVAL, 20},
        {"madvise", 2, EINVAL, 23},
        {"setsockopt", 2, ENOPROTOOPT, 30, SOL_SOCKET}, /* and two without effect */
        {"setsockopt", 2, ENOPROTOOPT, 18, IPPROTO_IP},
        {"setsockopt", 2, ENOPROTOOPT, 16, IPPROTO_IPV6},
        {"setsockopt", 2, ENOPROTOOPT, 19, IPPROTO_TCP},
        {"setsockopt", 2, ENOPROTOOPT, 3, IPPROTO_UDP},
        {"ioctl", 1, ENOTTY, 19}, /* below 0x10000; the rest belongs to a file system */
    };
    for (unsigned i = 0; i < ARCHITECTURES; i++) {
        for (unsigned k = 0; k < sizeof lists / sizeof *lists; k++) {
            struct seccomp_data call = {.arch = all[i].arch};
            call.nr = seccomp_syscall_resolve_name_arch(call.arch, lists[k].name);
            unsigned allowed = 0;
            call.args[1] = lists[k].level;
            for (uint64_t value = 0; value < 0x10000; value++) {
                call.args[lists[k].argument] = value;
                int said = program_action(&all[i].arguments, &call);
                assert_true(said == ALLOW || said == PROGRAM_PRETEND || said == lists[k].error);
                allowed += said == ALLOW;
            }
            assert_int_equal(allowed, lists[k].allowed);
        }
    }
}

static void filters_of_the_build_are_those_that_a_server_compiles(void **)
{
    struct filter_program built[MADE_FILTERS] = {};
    struct fail fail = {};
    assert_int_equal(filter_build_init(&built[MADE_INIT], &fail), 0);
    assert_int_equal(filter_build_names(&built[MADE_NAMES], &fail), 0);
    assert_int_equal(filter_build_arguments(/* landlock= */ false, &built[MADE_ARGUMENTS], &fail),
                     0);
    assert_int_equal(
        filter_build_arguments(/* landlock= */ true, &built[MADE_WITH_LANDLOCK], &fail), 0);
    for (unsigned i = 0; i < MADE_FILTERS; i++) {
        const struct filter_program *made = &made_filters[i];
        if (made_filters[0].count > 0) { /* the build could run programs of the target */
            assert_int_equal(made->count, built[i].count);
            assert_memory_equal(made->program, built[i].program,
                                made->count * sizeof *made->program);
        }
        free(built[i].program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_gets_the_action_of_its_list),
        cmocka_unit_test(calls_of_another_architecture_are_absent),
        cmocka_unit_test(each_row_holds_on_each_architecture),
        cmocka_unit_test(options_are_let_through_by_name_only),
        cmocka_unit_test(filters_of_the_build_are_those_that_a_server_compiles),
    };
    return cmocka_run_group_tests(tests, build_all, release_all);
}
