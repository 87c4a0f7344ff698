#include "sandbox/confine/filter.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h> /* RENAME_WHITEOUT */
#include <linux/sched.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sandbox/confine/abi.h"
#include "sandbox/confine/filter_parts.h"
#include "sandbox/confine/syscalls.h"
#include "sandbox/plan/plan.h"

static int build_by_name(bool with_init, struct plan_filter *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ERRNO(ENOSYS), ret_filter->arch, &context, ret_fail);
    if (r < 0) {
        return r;
    }
    r = filter_add_names(context, SCMP_ACT_ALLOW, syscalls_allowed);
    if (r == 0 && with_init) {
        r = filter_add_names(context, SCMP_ACT_ALLOW, syscalls_init);
    }
    for (const char *const *name = syscalls_refused; r == 0 && *name; name++) {
        const char *const one[] = {*name, NULL};
        bool init_needs = false;
        for (const char *const *init = syscalls_init; with_init && *init; init++) {
            init_needs = init_needs ||
                         seccomp_syscall_resolve_name(*init) == seccomp_syscall_resolve_name(*name);
        }
        r = init_needs ? 0 : filter_add_names(context, SCMP_ACT_ERRNO(EPERM), one);
    }
    r = r ? r : filter_add_personality(context);
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules by name");
    }
    return filter_export(context, ret_filter, ret_fail);
}

int filter_build_init(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    return build_by_name(true, ret_filter, ret_fail);
}

int filter_build_names(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    return build_by_name(false, ret_filter, ret_fail);
}

enum { ATTRIBUTE_BYTES = 256 };

static const struct filter_rule common[] = {
    /* new namespaces bring capabilities over them; NEWTIME cannot be asked of clone(2) */
    FILTER_FLAG("clone", 0, CLONE_NEWNS),
    FILTER_FLAG("clone", 0, CLONE_NEWUSER),
    FILTER_FLAG("clone", 0, CLONE_NEWPID),
    FILTER_FLAG("clone", 0, CLONE_NEWNET),
    FILTER_FLAG("clone", 0, CLONE_NEWIPC),
    FILTER_FLAG("clone", 0, CLONE_NEWUTS),
    FILTER_FLAG("clone", 0, CLONE_NEWCGROUP),
    FILTER_FLAG("clone", 0, CLONE_PTRACE),
    /* a thread with descriptors of its own: who counts what a process holds looks at one thread */
    FILTER_MASKED(EPERM, "clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_THREAD),
    /* and no process has another's: locks in it would stay when their maker, by whose time they are bounded where
     * descriptors are hidden, has ended */
    FILTER_MASKED(EPERM, "clone", 0, CLONE_THREAD | CLONE_FILES, CLONE_FILES),
    FILTER_MASKED(EINVAL, "close_range", 2, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE),
    /* limits and priorities of others: pid 1 has the same id */
    {EPERM, "prlimit64", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 1, SCMP_CMP_NE, 0, 0},
    {EPERM, "sched_setaffinity", 0, SCMP_CMP_NE, 0, 0},
    /* huge pages come from a pool of the host that the memory group does not count */
    FILTER_FLAG("mmap", 3, MAP_HUGETLB),
    FILTER_FLAG("mmap2", 3, MAP_HUGETLB),
    FILTER_FLAG("memfd_create", 1, MFD_HUGETLB),
    /* set-id files outlive the box in a host folder */
    FILTER_FLAG("chmod", 1, S_ISUID),
    FILTER_FLAG("chmod", 1, S_ISGID),
    FILTER_FLAG("fchmod", 1, S_ISUID),
    FILTER_FLAG("fchmod", 1, S_ISGID),
    FILTER_FLAG("fchmodat", 2, S_ISUID),
    FILTER_FLAG("fchmodat", 2, S_ISGID),
    FILTER_FLAG("creat", 1, S_ISUID),
    FILTER_FLAG("creat", 1, S_ISGID),
    FILTER_FLAG("mkdir", 1, S_ISUID),
    FILTER_FLAG("mkdir", 1, S_ISGID),
    FILTER_FLAG("mkdirat", 2, S_ISUID),
    FILTER_FLAG("mkdirat", 2, S_ISGID),
    FILTER_FLAG("mknod", 1, S_ISUID),
    FILTER_FLAG("mknod", 1, S_ISGID),
    FILTER_FLAG("mknodat", 2, S_ISUID),
    FILTER_FLAG("mknodat", 2, S_ISGID),
    FILTER_MASKED(EPERM, "mknod", 1, S_IFMT, S_IFCHR),
    FILTER_MASKED(EPERM, "mknod", 1, S_IFMT, S_IFBLK),
    FILTER_MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFCHR),
    FILTER_MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFBLK),
    /* An access control list is held in memory for each inode, 64 KiB where it may be so long (xattr(7)), and no
     * control group counts it. cp(1), tar(1) and Python's shutil pass over this error. */
    {ENOTSUP, "setxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    {ENOTSUP, "lsetxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    {ENOTSUP, "fsetxattr", 3, SCMP_CMP_GT, ATTRIBUTE_BYTES, 0},
    /* a whiteout is a character device, made without mknod(2) and unseen by Landlock */
    FILTER_FLAG("renameat2", 4, RENAME_WHITEOUT),
    /* access mode 3: a descriptor for ioctl alone, with the checks of reading and writing */
    FILTER_MASKED(EPERM, "open", 1, O_ACCMODE, O_ACCMODE),
    FILTER_MASKED(EPERM, "openat", 2, O_ACCMODE, O_ACCMODE),
};

/* open(2) that makes a file with a set-id mode: two arguments in one rule. O_TMPFILE makes one too,
 * and linkat(2) names it. */
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
        r = r == -EDOM ? 0 : r; /* no open(2) on this architecture */
        if (r == 0) {
            r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(openat), 2,
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, maker, maker),
                                 SCMP_A3(SCMP_CMP_MASKED_EQ, bit, bit));
        }
    }
    return r;
}

int filter_add_common(scmp_filter_ctx context)
{
    int r = filter_add_rules(context, common, sizeof common / sizeof *common);
    return r ? r : add_create_rules(context);
}

/* AF_VSOCK reaches a hypervisor's host and is in no namespace; AF_ALG, rxrpc and others have given
 * write access to the page cache (CVE-2026-31431 and its family). */
static const struct filter_sockets sockets[] = {
    {.call = SCMP_SYS(socket),
     .families = 1U << AF_UNIX | 1U << AF_INET | 1U << AF_INET6,
     .types = 1U << SOCK_STREAM | 1U << SOCK_DGRAM | 1U << SOCK_SEQPACKET,
     .protocols = 1U << 0 | 1U << IPPROTO_TCP | 1U << IPPROTO_UDP},
    {.call = SCMP_SYS(socketpair),
     .families = 1U << AF_UNIX,
     .types = 1U << SOCK_STREAM | 1U << SOCK_DGRAM | 1U << SOCK_SEQPACKET,
     .protocols = 1U << 0 | 1U << IPPROTO_TCP | 1U << IPPROTO_UDP},
};

int filter_build_arguments(bool landlock, struct plan_filter *ret_filter, struct fail *ret_fail)
{
    /* It hides memory and descriptors from whoever counts them, and from init's checks. */
    const struct filter_rule hiding = {EINVAL,        "prctl",        0, SCMP_CMP_MASKED_EQ,
                                       FILTER_LOW_32, PR_SET_DUMPABLE};
    FILTER_CONTEXT context = NULL;
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context, ret_fail);
    if (r < 0) {
        return r;
    }
    r = filter_add_common(context);
    r = r || !landlock ? r : filter_add_rules(context, &hiding, 1);
    r = r ? r : filter_add_sockets(context, &sockets[0]);
    r = r ? r : filter_add_sockets(context, &sockets[1]);
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules by argument");
    }
    return filter_export_with_lists(context, ret_filter, ret_fail);
}

/* Where only the watchdog counts memory: what it could not see. */
int filter_build_uncounted(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    const unsigned sizes[] = {SO_SNDBUF, SO_RCVBUF};
    int r = filter_context_new(SCMP_ACT_ALLOW, ret_filter->arch, &context, ret_fail);
    if (r < 0) {
        return r;
    }
    /* A memfd that is on its way in a message, or mapped and closed, is in nobody's figures. */
    r = seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(memfd_create), 0);
    /* The watchdog goes by the usual sizes. The kernel bounds a wish without a word, socket(7): so is
     * it done here, and programs go on. */
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(setsockopt), 2,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, SOL_SOCKET),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, sizes[i]));
    }
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, FILTER_LOW_32, F_SETPIPE_SZ));
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules for memory that is not counted");
    }
    return filter_export(context, ret_filter, ret_fail);
}

int filter_build_broker(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    FILTER_CONTEXT context = NULL;
    const unsigned families[] = {AF_INET, AF_INET6};
    const unsigned types[] = {SOCK_STREAM, SOCK_DGRAM};
    int r = filter_context_new(SCMP_ACT_ERRNO(EPERM), ret_filter->arch, &context, ret_fail);
    if (r < 0) {
        return r;
    }
    r = filter_add_names(context, SCMP_ACT_ALLOW, syscalls_broker);
    for (unsigned i = 0; r == 0 && i < 4; i++) {
        r = seccomp_rule_add(
            context, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, SCMP_A0(SCMP_CMP_EQ, families[i / 2]),
            SCMP_A1(SCMP_CMP_MASKED_EQ, 15, types[i % 2]), SCMP_A2(SCMP_CMP_EQ, 0));
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules of the egress broker");
    }
    return filter_export(context, ret_filter, ret_fail);
}
