#include "sandbox/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h> /* RENAME_WHITEOUT */
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/abi.h"
#include "sandbox/plan.h"
#include "sandbox/syscalls.h"

#define LOW_32 0xffffffffUL /* the kernel ignores the rest of an int: CVE-2019-10063 */

static void release_context(scmp_filter_ctx *context)
{
    if (*context) {
        seccomp_release(*context);
    }
}

/* Only the native architecture is added: another one's call kills the process, so no 32-bit
 * numbers and no x32. */
static int context_new(uint32_t action, scmp_filter_ctx *ret_context, struct fail *ret_fail)
{
    scmp_filter_ctx context = seccomp_init(action);
    if (!context) {
        return fail_set(ret_fail, ENOMEM, "seccomp filter");
    }
    int r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0) {
        r = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    if (r < 0) {
        seccomp_release(context);
        return fail_set(ret_fail, -r, "seccomp filter attributes");
    }
    *ret_context = context;
    return 0;
}

/* Calls are named by this machine's numbers all the same, libseccomp translates them. */
static int context_target(scmp_filter_ctx context, uint32_t arch, struct fail *ret_fail)
{
    if (arch == 0 || arch == seccomp_arch_native()) {
        return 0;
    }
    int r = seccomp_arch_add(context, arch);
    r = r ? r : seccomp_arch_remove(context, SCMP_ARCH_NATIVE);
    return r < 0 ? fail_set(ret_fail, -r, "seccomp filter for architecture %#x", arch) : 0;
}

/* Turns the rules into a program. libseccomp before 2.6 writes only to a descriptor. */
static int export_program(scmp_filter_ctx context, struct plan_filter *ret_filter,
                          struct fail *ret_fail)
{
    defer_close int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0) {
        return fail_set(ret_fail, errno, "memfd_create");
    }
    int r = seccomp_export_bpf(context, fd);
    struct stat st;
    if (r < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, r < 0 ? -r : errno, "export of a seccomp filter");
    }
    defer_free void *bytes = malloc((size_t)st.st_size);
    if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
        return fail_set(ret_fail, bytes ? EIO : ENOMEM, "seccomp filter");
    }
    ret_filter->count = (unsigned)((size_t)st.st_size / sizeof(struct sock_filter));
    ret_filter->program = take_ptr(bytes);
    return 0;
}

static int add_names(scmp_filter_ctx context, uint32_t action, const char *const *names)
{
    for (; *names; names++) {
        int number = seccomp_syscall_resolve_name(*names);
        if (number < 0) {
            continue; /* unknown to this libseccomp, or not of this architecture */
        }
        int r = seccomp_rule_add(context, action, number, 0);
        if (r < 0 && r != -EEXIST && r != -EDOM) {
            return r;
        }
    }
    return 0;
}

static int build_by_name(bool with_init, struct plan_filter *ret_filter, struct fail *ret_fail)
{
    OWNED(release_context) scmp_filter_ctx context = NULL;
    int r = context_new(SCMP_ACT_ERRNO(ENOSYS), &context, ret_fail);
    r = r ? r : context_target(context, ret_filter->arch, ret_fail);
    if (r < 0) {
        return r;
    }
    r = add_names(context, SCMP_ACT_ALLOW, syscalls_allowed);
    if (r == 0 && with_init) {
        r = add_names(context, SCMP_ACT_ALLOW, syscalls_init);
    }
    for (const char *const *name = syscalls_refused; r == 0 && *name; name++) {
        const char *const one[] = {*name, NULL};
        bool init_needs = false;
        for (const char *const *init = syscalls_init; with_init && *init; init++) {
            init_needs = init_needs ||
                         seccomp_syscall_resolve_name(*init) == seccomp_syscall_resolve_name(*name);
        }
        r = init_needs ? 0 : add_names(context, SCMP_ACT_ERRNO(EPERM), one);
    }
    /* The plain personality and the question for it; nothing that weakens address randomisation. */
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                             SCMP_A0(SCMP_CMP_EQ, i ? LOW_32 : 0));
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules by name");
    }
    return export_program(context, ret_filter, ret_fail);
}

int filter_build_init(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    return build_by_name(true, ret_filter, ret_fail);
}

int filter_build_names(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    return build_by_name(false, ret_filter, ret_fail);
}

struct rule {
    int error;
    const char *name;
    unsigned argument;
    enum scmp_compare compare;
    uint64_t a;
    uint64_t b;
};

#define MASKED(error, name, argument, mask, value)                                                 \
    {                                                                                              \
        error, name, argument, SCMP_CMP_MASKED_EQ, mask, value                                     \
    }
#define FLAG(name, argument, flag) MASKED(EPERM, name, argument, flag, flag)
#define VALUE(name, argument, value) MASKED(EPERM, name, argument, LOW_32, value)

static const struct rule rules[] = {
    /* new namespaces bring capabilities over them; NEWTIME cannot be asked of clone(2) */
    FLAG("clone", 0, CLONE_NEWNS),
    FLAG("clone", 0, CLONE_NEWUSER),
    FLAG("clone", 0, CLONE_NEWPID),
    FLAG("clone", 0, CLONE_NEWNET),
    FLAG("clone", 0, CLONE_NEWIPC),
    FLAG("clone", 0, CLONE_NEWUTS),
    FLAG("clone", 0, CLONE_NEWCGROUP),
    FLAG("clone", 0, CLONE_PTRACE),
    /* keystrokes into a terminal that somebody left open: CVE-2017-5226, CVE-2023-28100 */
    VALUE("ioctl", 1, TIOCSTI),
    VALUE("ioctl", 1, 0x541c /* TIOCLINUX */),
    VALUE("ioctl", 1, TIOCSETD),
    VALUE("ioctl", 1, TIOCSCTTY),
    VALUE("ioctl", 1, TIOCCONS),
    /* All of the sockets' own, 0x8900 to 0x89ff. FIOSETOWN and SIOCSPGRP send signals to whoever owns a
     * descriptor. SIOCGIF... list interfaces and addresses of the network namespace that a socket was
     * made in, wherever it is: a second lock, were one ever the host's. */
    MASKED(EPERM, "ioctl", 1, 0xffffff00, 0x8900),
    VALUE("ioctl", 1, FIOASYNC),
    VALUE("fcntl", 1, F_SETOWN),
    VALUE("fcntl", 1, F_SETOWN_EX),
    VALUE("fcntl", 1, F_SETSIG),
    VALUE("fcntl", 1, F_SETLEASE),
    VALUE("fcntl", 1, F_NOTIFY),
    VALUE("prctl", 0, PR_SET_MM),
    VALUE("prctl", 0, PR_SET_PTRACER),
    VALUE("prctl", 0, PR_SET_SECCOMP),
    VALUE("prctl", 0, PR_MCE_KILL),
    /* a scheduling cookie of one's own keeps others off the sibling processors */
    VALUE("prctl", 0, PR_SCHED_CORE),
    /* limits and priorities of others: pid 1 has the same id */
    {EPERM, "prlimit64", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 0, SCMP_CMP_NE, 0, 0},
    {EPERM, "setpriority", 1, SCMP_CMP_NE, 0, 0},
    {EPERM, "sched_setaffinity", 0, SCMP_CMP_NE, 0, 0},
    /* huge pages come from a pool of the host that the memory group does not count */
    FLAG("mmap", 3, MAP_HUGETLB),
    FLAG("mmap2", 3, MAP_HUGETLB),
    FLAG("memfd_create", 1, MFD_HUGETLB),
    /* set-id files outlive the box in a host folder */
    FLAG("chmod", 1, S_ISUID),
    FLAG("chmod", 1, S_ISGID),
    FLAG("fchmod", 1, S_ISUID),
    FLAG("fchmod", 1, S_ISGID),
    FLAG("fchmodat", 2, S_ISUID),
    FLAG("fchmodat", 2, S_ISGID),
    FLAG("creat", 1, S_ISUID),
    FLAG("creat", 1, S_ISGID),
    FLAG("mkdir", 1, S_ISUID),
    FLAG("mkdir", 1, S_ISGID),
    FLAG("mkdirat", 2, S_ISUID),
    FLAG("mkdirat", 2, S_ISGID),
    FLAG("mknod", 1, S_ISUID),
    FLAG("mknod", 1, S_ISGID),
    FLAG("mknodat", 2, S_ISUID),
    FLAG("mknodat", 2, S_ISGID),
    MASKED(EPERM, "mknod", 1, S_IFMT, S_IFCHR),
    MASKED(EPERM, "mknod", 1, S_IFMT, S_IFBLK),
    MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFCHR),
    MASKED(EPERM, "mknodat", 2, S_IFMT, S_IFBLK),
    /* a whiteout is a character device, made without mknod(2) and unseen by Landlock */
    FLAG("renameat2", 4, RENAME_WHITEOUT),
    /* access mode 3: a descriptor for ioctl alone, with the checks of reading and writing */
    MASKED(EPERM, "open", 1, O_ACCMODE, O_ACCMODE),
    MASKED(EPERM, "openat", 2, O_ACCMODE, O_ACCMODE),
};

static int add_rules(scmp_filter_ctx context)
{
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *rule = &rules[i];
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

/* Families UNIX, INET and INET6; types stream, datagram and packet; protocols 0, TCP and UDP.
 * AF_VSOCK reaches a hypervisor's host and is in no namespace; AF_ALG, rxrpc and others have given
 * write access to the page cache (CVE-2026-31431 and its family). */
static int add_socket_rules(scmp_filter_ctx context)
{
    const int calls[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};
    int r = 0;
    for (unsigned c = 0; c < 2; c++) {
        for (unsigned family = 0; r == 0 && family < AF_INET6; family++) {
            bool ours = family == AF_UNIX || (c == 0 && family == AF_INET);
            r = ours ? 0 : refuse(context, EAFNOSUPPORT, calls[c], SCMP_A0(SCMP_CMP_EQ, family));
        }
        unsigned first = c == 0 ? AF_INET6 + 1 : AF_INET6;
        r = r ? r : refuse(context, EAFNOSUPPORT, calls[c], SCMP_A0(SCMP_CMP_GE, first));
        for (unsigned type = 0; r == 0 && type < 16; type++) {
            bool ours = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
            r = ours ? 0 : refuse(context, EPERM, calls[c], SCMP_A1(SCMP_CMP_MASKED_EQ, 15, type));
        }
        for (unsigned protocol = 1; r == 0 && protocol < IPPROTO_UDP; protocol++) {
            r = protocol == IPPROTO_TCP
                    ? 0
                    : refuse(context, EPROTONOSUPPORT, calls[c], SCMP_A2(SCMP_CMP_EQ, protocol));
        }
        r = r ? r
              : refuse(context, EPROTONOSUPPORT, calls[c], SCMP_A2(SCMP_CMP_GE, IPPROTO_UDP + 1));
    }
    /* espintcp and kTLS hang on TCP_ULP; zero copy pins pages that others may see; socket filters are
     * programs that the kernel compiles; a socket bound to an interface names it */
    const struct {
        unsigned level;
        unsigned option;
    } options[] = {{IPPROTO_TCP, TCP_ULP},         {SOL_SOCKET, SO_ZEROCOPY},
                   {SOL_SOCKET, SO_BINDTODEVICE},  {SOL_SOCKET, SO_BINDTOIFINDEX},
                   {SOL_SOCKET, SO_ATTACH_FILTER}, {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}};
    for (unsigned i = 0; r == 0 && i < sizeof options / sizeof *options; i++) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(setsockopt), 2,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, options[i].level),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_32, options[i].option));
    }
    return r;
}

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

int filter_build_arguments(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    OWNED(release_context) scmp_filter_ctx context = NULL;
    int r = context_new(SCMP_ACT_ALLOW, &context, ret_fail);
    r = r ? r : context_target(context, ret_filter->arch, ret_fail);
    if (r < 0) {
        return r;
    }
    r = add_rules(context);
    r = r ? r : add_socket_rules(context);
    r = r ? r : add_create_rules(context);
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules by argument");
    }
    return export_program(context, ret_filter, ret_fail);
}

/* Where only the watchdog counts memory: what it could not see. */
int filter_build_uncounted(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    OWNED(release_context) scmp_filter_ctx context = NULL;
    const unsigned sizes[] = {SO_SNDBUF, SO_RCVBUF};
    int r = context_new(SCMP_ACT_ALLOW, &context, ret_fail);
    r = r ? r : context_target(context, ret_filter->arch, ret_fail);
    if (r < 0) {
        return r;
    }
    /* A memfd that is on its way in a message, or mapped and closed, is in nobody's figures. */
    r = seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(memfd_create), 0);
    /* The watchdog goes by the usual sizes. The kernel bounds a wish without a word, socket(7): so is
     * it done here, and programs go on. */
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(0), SCMP_SYS(setsockopt), 2,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, SOL_SOCKET),
                             SCMP_A2(SCMP_CMP_MASKED_EQ, LOW_32, sizes[i]));
    }
    r = r ? r
          : seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, F_SETPIPE_SZ));
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules for memory that is not counted");
    }
    return export_program(context, ret_filter, ret_fail);
}

int filter_build_broker(struct plan_filter *ret_filter, struct fail *ret_fail)
{
    OWNED(release_context) scmp_filter_ctx context = NULL;
    const unsigned families[] = {AF_INET, AF_INET6};
    const unsigned types[] = {SOCK_STREAM, SOCK_DGRAM};
    int r = context_new(SCMP_ACT_ERRNO(EPERM), &context, ret_fail);
    if (r < 0) {
        return r;
    }
    r = add_names(context, SCMP_ACT_ALLOW, syscalls_broker);
    for (unsigned i = 0; r == 0 && i < 4; i++) {
        r = seccomp_rule_add(
            context, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3, SCMP_A0(SCMP_CMP_EQ, families[i / 2]),
            SCMP_A1(SCMP_CMP_MASKED_EQ, 15, types[i % 2]), SCMP_A2(SCMP_CMP_EQ, 0));
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "seccomp rules of the egress broker");
    }
    return export_program(context, ret_filter, ret_fail);
}
