#include "sandbox/policy/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h> /* RENAME_WHITEOUT */
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/policy/filter_parts.h"
#include "sandbox/policy/landlock_abi.h"

enum { TYPES = 16 }; /* flags are the bits above, socket(2) */

void filter_context_release(scmp_filter_ctx *context)
{
    if (*context) {
        seccomp_release(*context);
    }
}

/* Rules name calls by this machine's numbers; libseccomp translates them. */
static int context_target(scmp_filter_ctx context, uint32_t arch)
{
    if (arch == 0 || arch == seccomp_arch_native()) {
        return 0;
    }
    int r = seccomp_arch_add(context, arch);
    return r ? r : seccomp_arch_remove(context, SCMP_ARCH_NATIVE);
}

int filter_context_new(uint32_t action, uint32_t arch, scmp_filter_ctx *ret_context)
{
    scmp_filter_ctx context = seccomp_init(action);
    *ret_context = context;
    if (!context) {
        return -ENOMEM;
    }
    /* Not KILL: the kernel would write an audit record for each, with a name that code has
     * chosen. */
    int r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    r = r ? r : seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return r ? r : context_target(context, arch);
}

int filter_add_names(scmp_filter_ctx context, uint32_t action, const char *const *names)
{
    for (; *names; names++) {
        int number = seccomp_syscall_resolve_name(*names);
        if (number < 0) {
            continue; /* unknown to this libseccomp, or missing on this architecture */
        }
        int r = seccomp_rule_add(context, action, number, 0);
        if (r < 0 && r != -EEXIST && r != -EDOM) {
            return r;
        }
    }
    return 0;
}

int filter_add_rules(scmp_filter_ctx context, const struct filter_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct filter_rule *rule = &rules[i];
        int number = seccomp_syscall_resolve_name(rule->name);
        if (number < 0) {
            continue;
        }
        struct scmp_arg_cmp compare = {
            .arg = rule->argument, .op = rule->compare, .datum_a = rule->a, .datum_b = rule->b};
        int r = seccomp_rule_add_array(context, SCMP_ACT_ERRNO((uint32_t)rule->error), number, 1,
                                       &compare);
        if (r < 0 && r != -EEXIST && r != -EDOM) {
            return r;
        }
    }
    return 0;
}

static int refuse(scmp_filter_ctx context, int error, int number, struct scmp_arg_cmp compare)
{
    return seccomp_rule_add_array(context, SCMP_ACT_ERRNO((uint32_t)error), number, 1, &compare);
}

/* Refuses an argument that is not in the set. */
static int refuse_others(scmp_filter_ctx context, int error, const struct filter_sockets *sockets,
                         unsigned argument, unsigned set)
{
    unsigned number = 0;
    int r = 0;
    for (; r == 0 && set >> number; number++) {
        r = set >> number & 1
                ? 0
                : refuse(context, error, sockets->call, SCMP_CMP(argument, SCMP_CMP_EQ, number));
    }
    return r ? r : refuse(context, error, sockets->call, SCMP_CMP(argument, SCMP_CMP_GE, number));
}

int filter_add_sockets(scmp_filter_ctx context, const struct filter_sockets *allowed)
{
    int r = refuse_others(context, EAFNOSUPPORT, allowed, 0, allowed->families);
    bool route = allowed->families >> AF_NETLINK & 1;
    for (unsigned type = 0; r == 0 && type < TYPES; type++) {
        struct scmp_arg_cmp compare[] = {SCMP_A1(SCMP_CMP_MASKED_EQ, TYPES - 1, type),
                                         SCMP_A0(SCMP_CMP_NE, AF_NETLINK)};
        r = allowed->types >> type & 1
                ? 0
                : seccomp_rule_add_array(context, SCMP_ACT_ERRNO(EPERM), allowed->call,
                                         route && type == SOCK_RAW ? 2 : 1, compare);
    }
    if (r == 0 && route) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPROTONOSUPPORT), allowed->call, 2,
                             SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
    }
    return r ? r : refuse_others(context, EPROTONOSUPPORT, allowed, 2, allowed->protocols);
}

/* libseccomp before 2.6 can write only to a descriptor. */
int filter_export(scmp_filter_ctx context, int r, const char *rules,
                  struct filter_program *ret_filter, struct fail *ret_fail)
{
    if (r < 0) {
        return fail_set(ret_fail, -r, "%s", rules);
    }
    defer_close int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0) {
        return fail_set(ret_fail, errno, "memfd_create");
    }
    r = seccomp_export_bpf(context, fd);
    struct stat st;
    if (r < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, r < 0 ? -r : errno, "cannot export a seccomp filter");
    }
    defer_free void *bytes = malloc((size_t)st.st_size);
    if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
        return fail_set(ret_fail, bytes ? EIO : ENOMEM, "seccomp filter");
    }
    ret_filter->count = (unsigned)((size_t)st.st_size / sizeof(struct sock_filter));
    ret_filter->program = take_ptr(bytes);
    return 0;
}

int filter_export_with_lists(scmp_filter_ctx context, int r, const char *rules,
                             struct filter_program *ret_filter, struct fail *ret_fail)
{
    struct filter_program filter = {.arch = ret_filter->arch};
    r = filter_export(context, r, rules, &filter, ret_fail);
    if (r < 0) {
        return r;
    }
    r = filter_add_lists(&filter);
    if (r < 0) {
        free(filter.program);
        return fail_set(ret_fail, -r, "seccomp lists of options");
    }
    *ret_filter = filter;
    return 0;
}

int filter_build_init(struct filter_program *ret_filter, struct fail *ret_fail)
{
    static const struct filter_named lists[] = {
        {syscalls_init, SECCOMP_RET_ALLOW},
        {syscalls_allowed, SECCOMP_RET_ALLOW},
        {syscalls_refused, SECCOMP_RET_ERRNO | EPERM},
        {syscalls_unsuited, SECCOMP_RET_ERRNO | EINVAL},
        {},
    };
    return filter_build_named(lists, ret_filter, ret_fail);
}

int filter_build_names(struct filter_program *ret_filter, struct fail *ret_fail)
{
    static const struct filter_named lists[] = {
        {syscalls_allowed, SECCOMP_RET_ALLOW},
        {syscalls_refused, SECCOMP_RET_ERRNO | EPERM},
        {syscalls_unsuited, SECCOMP_RET_ERRNO | EINVAL},
        {},
    };
    return filter_build_named(lists, ret_filter, ret_fail);
}

enum { ATTRIBUTE_BYTES = 256, SEGMENT_BYTES = 1 << 20 };

#define SET_ID(name, argument)                                                                     \
    FILTER_FLAG(name, argument, S_ISUID), FILTER_FLAG(name, argument, S_ISGID)

static const struct filter_rule common[] = {
    /* a new namespace brings capabilities over it; clone(2) has no CLONE_NEWTIME */
    FILTER_FLAG("clone", 0, CLONE_NEWNS),
    FILTER_FLAG("clone", 0, CLONE_NEWUSER),
    FILTER_FLAG("clone", 0, CLONE_NEWPID),
    FILTER_FLAG("clone", 0, CLONE_NEWNET),
    FILTER_FLAG("clone", 0, CLONE_NEWIPC),
    FILTER_FLAG("clone", 0, CLONE_NEWUTS),
    FILTER_FLAG("clone", 0, CLONE_NEWCGROUP),
    FILTER_FLAG("clone", 0, CLONE_PTRACE),
    /* a thread with its own descriptors: init counts a process's descriptors by one thread */
    FILTER_MASKED(EPERM, "clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD),
    /* nor may a process share another's descriptors: a lock would outlive the process that made it,
     * and where descriptors are hidden only that process's time limit bounds its locks */
    FILTER_MASKED(EPERM, "clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_FILES),
    FILTER_MASKED(EINVAL, "close_range", 2, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE),
    /* limits and priorities of other processes: init has the same uid */
    {EPERM, "prlimit64", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 1, SCMP_CMP_NE, 0, 0},
    {EPERM, "sched_setaffinity", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "sched_setparam", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "sched_setscheduler", 1, SCMP_CMP_EQ, SCHED_FIFO, 0},
    {EPERM, "sched_setscheduler", 1, SCMP_CMP_EQ, SCHED_RR, 0},
    {EPERM, "sched_setscheduler", 1, SCMP_CMP_GT, SCHED_IDLE, 0},
    /* huge pages come from the host's pool, which the memory cgroup does not count */
    FILTER_FLAG("mmap", 3, MAP_HUGETLB),
    FILTER_FLAG("mmap2", 3, MAP_HUGETLB),
    FILTER_FLAG("memfd_create", 1, MFD_HUGETLB),
    FILTER_FLAG("shmget", 2, SHM_HUGETLB),
    {EINVAL, "shmget", 1, SCMP_CMP_GT, SEGMENT_BYTES, 0},
    FILTER_VALUE("shmctl", 1, SHM_LOCK),
    /* set-id files outlive the sandbox in a host directory */
    SET_ID("chmod", 1),
    SET_ID("fchmod", 1),
    SET_ID("fchmodat", 2),
    SET_ID("creat", 1),
    SET_ID("mkdir", 1),
    SET_ID("mkdirat", 2),
    SET_ID("mknod", 1),
    SET_ID("mknodat", 2),
    FILTER_MASKED(EPERM, "mknod", 1, S_IFMT, S_IFCHR),
    FILTER_MASKED(EPERM, "mknod", 1, S_IFMT, S_IFBLK),
    FILTER_MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFCHR),
    FILTER_MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFBLK),
    /* The kernel holds an access control list in memory for each inode, up to 64 KiB (xattr(7)),
     * and no control group counts it. cp(1), tar(1) and Python's shutil ignore this error. */
    {ENOTSUP, "setxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    {ENOTSUP, "lsetxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    {ENOTSUP, "fsetxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    /* a whiteout is a character device, made without mknod(2) and invisible to Landlock */
    FILTER_FLAG("renameat2", 4, RENAME_WHITEOUT),
    /* access mode 3: a descriptor for ioctl only, with the checks of reading and writing */
    FILTER_MASKED(EPERM, "open", 1, O_ACCMODE, O_ACCMODE),
    FILTER_MASKED(EPERM, "openat", 2, O_ACCMODE, O_ACCMODE),
};

/* open(2) that makes a file with a set-id mode: two arguments in one rule. O_TMPFILE makes one too,
 * and linkat(2) then names it. */
static int add_create_rules(scmp_filter_ctx context)
{
    const unsigned bits[] = {S_ISUID, S_ISGID};
    const unsigned makers[] = {O_CREAT, O_TMPFILE & ~O_DIRECTORY};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 4; i++) {
        unsigned bit = bits[i % 2];
        unsigned maker = makers[i / 2];
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(open), 2,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, maker, maker),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, bit, bit));
        r = r == -EDOM ? 0 : r; /* this architecture has no open(2) */
        if (r == 0) {
            r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 2,
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, maker, maker),
                                 SCMP_A3(SCMP_CMP_MASKED_EQ, bit, bit));
        }
    }
    return r;
}

/* Init assumes the usual buffer sizes of sockets. The kernel reduces a request silently, socket(7),
 * so the filter lets it succeed without effect and programs continue. */
static int add_buffer_rules(scmp_filter_ctx context)
{
    const unsigned sizes[] = {SO_SNDBUF, SO_RCVBUF};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(setsockopt), 2,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, SOL_SOCKET),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, sizes[i]));
    }
    return r;
}

/* libc names a thread by its id, which nothing tells from another process's: that one gets only the
 * policy that all have. */
static int add_policy_rule(scmp_filter_ctx context)
{
    return seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(sched_setscheduler), 2,
                            SCMP_A0(SCMP_CMP_NE, 0), SCMP_A1(SCMP_CMP_NE, SCHED_OTHER));
}

int filter_add_common(scmp_filter_ctx context)
{
    int r = filter_add_rules(context, common, sizeof common / sizeof *common);
    r = r ? r : add_create_rules(context);
    r = r ? r : add_policy_rule(context);
    return r ? r : add_buffer_rules(context);
}

/* AF_VSOCK reaches a hypervisor's host and belongs to no namespace; AF_ALG, rxrpc and others have
 * given write access to the page cache (CVE-2026-31431 and similar). NETLINK_ROUTE lists the
 * loopback interface of the sandbox's own network: Node.js throws, and MPI and libzmq end the
 * process, where getifaddrs(3) fails. To change anything needs a capability, rtnetlink(7). */
static const struct filter_sockets sockets[] = {
    {.call = SCMP_SYS(socket),
     .families = 1U << AF_UNIX | 1U << AF_INET | 1U << AF_INET6 | 1U << AF_NETLINK,
     .types = 1U << SOCK_STREAM | 1U << SOCK_DGRAM | 1U << SOCK_SEQPACKET,
     .protocols = 1U << 0 | 1U << IPPROTO_TCP | 1U << IPPROTO_UDP},
    {.call = SCMP_SYS(socketpair),
     .families = 1U << AF_UNIX,
     .types = 1U << SOCK_STREAM | 1U << SOCK_DGRAM | 1U << SOCK_SEQPACKET,
     .protocols = 1U << 0 | 1U << IPPROTO_TCP | 1U << IPPROTO_UDP},
};

int filter_build_arguments(bool landlock, struct filter_program *ret_filter, struct fail *ret_fail)
{
    /* PR_SET_DUMPABLE hides memory and descriptors from the watchdog and from init's checks. */
    const struct filter_rule hiding = {EINVAL,        "prctl",        0, SCMP_CMP_MASKED_EQ,
                                       FILTER_LOW_32, PR_SET_DUMPABLE};
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context);
    r = r ? r : filter_add_common(context);
    r = r || !landlock ? r : filter_add_rules(context, &hiding, 1);
    r = r ? r : filter_add_sockets(context, &sockets[0]);
    r = r ? r : filter_add_sockets(context, &sockets[1]);
    return filter_export_with_lists(context, r, "seccomp rules by argument", ret_filter, ret_fail);
}

int filter_build_uncounted(struct filter_program *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context);
    /* Nothing counts a memfd that is in a message, or mapped and closed, nor a segment. */
    r = r ? r : seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(memfd_create), 0);
    r = r ? r : seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(shmget), 0);
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, F_SETPIPE_SZ));
    /* They are off, and stay so (programs/init/spawn.c). */
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(prctl), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, PR_SET_THP_DISABLE));
    return filter_export(context, r, "seccomp rules for uncounted memory", ret_filter, ret_fail);
}

int filter_build_proxy(struct filter_program *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    const unsigned families[] = {AF_INET, AF_INET6};
    const unsigned types[] = {SOCK_STREAM, SOCK_DGRAM};
    int r = filter_context_new(SCMP_ACT_ERRNO(EPERM), ret_filter->arch, &context);
    r = r ? r : filter_add_names(context, SCMP_ACT_ALLOW, syscalls_proxy);
    for (unsigned i = 0; r == 0 && i < 4; i++) {
        r = seccomp_rule_add(
            context, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, SCMP_A0(SCMP_CMP_EQ, families[i / 2]),
            SCMP_A1(SCMP_CMP_MASKED_EQ, 15, types[i % 2]), SCMP_A2(SCMP_CMP_EQ, 0));
    }
    return filter_export(context, r, "seccomp rules of the egress proxy", ret_filter, ret_fail);
}

int filter_build_apply(struct filter_program *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ERRNO(EPERM), ret_filter->arch, &context);
    r = r ? r : filter_add_names(context, SCMP_ACT_ALLOW, syscalls_apply);
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, F_SETLEASE));
    return filter_export(context, r, "seccomp rules for applying changes", ret_filter, ret_fail);
}

const char *const filter_signals[] = {
    "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", NULL};

/* What changes names or attributes. What is written to an open file is known by its opening. */
static const char *const writes[] = {
    "creat",       "truncate",     "rename",       "renameat", "renameat2", "link",
    "linkat",      "symlink",      "symlinkat",    "unlink",   "unlinkat",  "mkdir",
    "mkdirat",     "rmdir",        "mknod",        "mknodat",  "chmod",     "fchmod",
    "fchmodat",    "chown",        "lchown",       "fchown",   "fchownat",  "utime",
    "utimes",      "futimesat",    "utimensat",    "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "lremovexattr", "fremovexattr", NULL};

int filter_add_writes(scmp_filter_ctx context)
{
    static const uint64_t flags[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC};
    int r = filter_add_names(context, SCMP_ACT_NOTIFY, writes);
    for (unsigned i = 0; r == 0 && i < 2 * (sizeof flags / sizeof *flags); i++) {
        uint64_t flag = flags[i / 2];
        const char *name = i % 2 ? "openat" : "open";
        struct scmp_arg_cmp compare = {
            .arg = i % 2 ? 2 : 1, .op = SCMP_CMP_MASKED_EQ, .datum_a = flag, .datum_b = flag};
        int number = seccomp_syscall_resolve_name(name);
        r = number < 0 ? 0 : seccomp_rule_add_array(context, SCMP_ACT_NOTIFY, number, 1, &compare);
        r = r == -EDOM ? 0 : r; /* not on this architecture */
    }
    return r;
}

int filter_build_asks(const struct filter_asks *asks, struct filter_program *ret_filter,
                      struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context);
    r = r || !asks->signals ? r : filter_add_names(context, SCMP_ACT_NOTIFY, filter_signals);
    r = r || !asks->writes ? r : filter_add_writes(context);
    return filter_export(context, r, "seccomp rules for what init is asked", ret_filter, ret_fail);
}

bool filter_can_ask_of_writes(void)
{
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    /* The kernel checks the flags before it reads the program, which is not there. */
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL) < 0 && errno == EFAULT;
}
