#include "sandbox/policy/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <linux/in6.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/policy/landlock.h"

/* Allow-lists for the options of prctl(2), ioctl(2), fcntl(2), madvise(2), personality(2) and
 * setsockopt(2). Most versions of Linux add an option, so the filter refuses what nobody has
 * checked, with the errno of a kernel without that option. Programs then continue as on an older
 * kernel.
 *
 * libseccomp has no rule for "none of these values": refusing would take one rule for each value
 * outside the list. So the lists are compiled here and run before libseccomp's program. */

/* Programs that decide by the number of a call alone. Sorted by number, the lists make about a
 * hundred ranges with the same action each; the program finds the range by halving. The kernel runs
 * it once for each number that is allowed: it keeps the result (Linux 5.11). */

enum {
    NUMBERS = 1024,    /* above every call's number on the 64-bit architectures of Linux */
    RANGES_MOST = 255, /* half of them are skipped by a jump, which covers up to 255 steps */
    HEAD_STEPS = 4,
};

struct range {
    uint32_t start; /* its first number; it ends before the next range's, the last one nowhere */
    uint32_t action;
};

static const uint32_t absent = SECCOMP_RET_ERRNO | ENOSYS;

static int fill(const struct filter_named *lists, uint32_t arch, uint32_t actions[NUMBERS])
{
    for (; lists->names; lists++) {
        for (const char *const *name = lists->names; *name; name++) {
            int number = seccomp_syscall_resolve_name_arch(arch, *name);
            if (number < 0) {
                continue; /* unknown to this libseccomp, or missing on this architecture */
            }
            if (number >= NUMBERS) {
                return -ERANGE;
            }
            actions[number] = actions[number] ? actions[number] : lists->action;
        }
    }
    return 0;
}

static unsigned find_ranges(const uint32_t actions[NUMBERS], struct range ranges[NUMBERS + 1])
{
    unsigned count = 0;
    for (uint32_t number = 0; number <= NUMBERS; number++) {
        uint32_t action = number < NUMBERS && actions[number] ? actions[number] : absent;
        if (count == 0 || action != ranges[count - 1].action) {
            ranges[count++] = (struct range){.start = number, .action = action};
        }
    }
    return count;
}

/* Compiles the ranges for a number that is in one of them, to 2 * count - 1 steps. */
static unsigned compile_names(const struct range *ranges, unsigned count, struct sock_filter *steps)
{
    if (count == 1) {
        steps[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ranges->action);
        return 1;
    }
    unsigned half = count / 2;
    unsigned below = compile_names(ranges, half, steps + 1);
    steps[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[half].start,
                                            (uint8_t)below, 0);
    return 1 + below + compile_names(ranges + half, count - half, steps + 1 + below);
}

int filter_build_named(const struct filter_named *lists, struct filter_program *ret_filter,
                       struct fail *ret_fail)
{
    uint32_t actions[NUMBERS] = {};
    struct range ranges[NUMBERS + 1];
    uint32_t arch = ret_filter->arch ? ret_filter->arch : seccomp_arch_native();
    int r = fill(lists, arch, actions);
    unsigned count = r < 0 ? 0 : find_ranges(actions, ranges);
    if (r < 0 || count > RANGES_MOST) {
        return fail_set(ret_fail, ERANGE, "seccomp rules by name for architecture %#x", arch);
    }
    struct sock_filter *steps = malloc((HEAD_STEPS + 2 * count) * sizeof *steps);
    if (!steps) {
        return fail_set(ret_fail, ENOMEM, "seccomp filter");
    }
    steps[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    steps[1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
    steps[2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, absent);
    steps[3] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    ret_filter->count = HEAD_STEPS + compile_names(ranges, count, steps + HEAD_STEPS);
    ret_filter->program = steps;
    return 0;
}

/* Not in the list, of the options that programs do use:
 * - PR_SET_SECCOMP: each filter is kernel memory that nothing counts; seccomp(2) is refused too.
 * - PR_FUTEX_HASH: up to 256 MiB of tables for each process, counted by nothing (Linux 6.16).
 * - PR_SET_MEMORY_MERGE: merged pages reveal their content to others, and nothing counts their
 *   bookkeeping.
 * - PR_SET_VMA: names of mappings are kernel memory; libraries ignore the refusal.
 * - PR_SCHED_CORE: a process with its own cookie keeps others off the sibling processors.
 * - PR_SET_PTRACER, PR_SET_MM, PR_MCE_KILL, PR_SET_SPECULATION_CTRL: control of other processes, of
 *   what /proc says, of machine faults, and of the processor's mitigations. */
static const uint32_t process_options[] = {
    PR_SET_PDEATHSIG,        /* a child that dies with its parent */
    PR_GET_PDEATHSIG,        /* its value */
    PR_GET_DUMPABLE,         /* the process's own flag */
    PR_SET_DUMPABLE,         /* the zygote hides with it; with Landlock refused by argument */
    PR_SET_NAME,             /* threads' names, in /proc and ps */
    PR_GET_NAME,             /* the same */
    PR_GET_SECCOMP,          /* whether there is a filter; our self-test asks */
    PR_CAPBSET_READ,         /* which capabilities the kernel has: libcap, our self-test */
    PR_GET_SECUREBITS,       /* libcap */
    PR_GET_KEEPCAPS,         /* libcap */
    PR_SET_TIMERSLACK,       /* of the process's own timers */
    PR_GET_TIMERSLACK,       /* its value */
    PR_SET_CHILD_SUBREAPER,  /* small inits and process managers; refused in a container */
    PR_GET_CHILD_SUBREAPER,  /* its value */
    PR_SET_NO_NEW_PRIVS,     /* only removes rights: programs that sandbox themselves */
    PR_GET_NO_NEW_PRIVS,     /* its value */
    PR_GET_TID_ADDRESS,      /* guest/orphan.py */
    PR_SET_THP_DISABLE,      /* allocators and databases, for less memory */
    PR_GET_THP_DISABLE,      /* its value */
    PR_CAP_AMBIENT,          /* the set is and stays empty: our self-test asks */
    PR_SVE_GET_VL,           /* 64-bit ARM: vector length */
    PR_SME_GET_VL,           /* the same */
    PR_GET_SPECULATION_CTRL, /* state of the processor's mitigations */
};

/* Terminals are pseudo-terminals that code has made (launch/child_root.c). Not in the list:
 * requests that type into terminals (TIOCSTI: CVE-2017-5226, CVE-2023-28100; TIOCLINUX), attach a
 * line discipline (TIOCSETD: CVE-2017-2636, CVE-2023-6546), send signals (TIOCSIG), list interfaces
 * of a socket's network (SIOCGIF...), send signals to a descriptor's owner (FIOSETOWN, FIOASYNC),
 * change attributes of files that were opened for reading (FS_IOC_SETFLAGS, FS_IOC_ENABLE_VERITY),
 * reveal where a file is on the disk (FS_IOC_FIEMAP), share extents with the owner's right alone
 * (FIDEDUPERANGE), or belong to one file system (BTRFS_IOC_SNAP_CREATE of a whole subvolume). */
static const uint32_t requests[] = {
    TCGETS,          /* isatty(3) */
    0x802c542a,      /* TCGETS2: isatty(3) of glibc 2.42 */
    TIOCGWINSZ,      /* a terminal's size */
    TIOCGPGRP,       /* tcgetpgrp(3) */
    TCSETS,          /* a terminal's mode: tcsetattr(3), pty.setraw() */
    TCSETSW,         /* the same */
    TCSETSF,         /* the same */
    0x402c542b,      /* TCSETS2, TCSETSW2, TCSETSF2: the same of glibc 2.42 */
    0x402c542c,      /* - */
    0x402c542d,      /* - */
    TCSBRK,          /* tcdrain(3) */
    TCFLSH,          /* tcflush(3) */
    TIOCSWINSZ,      /* a terminal's size */
    TIOCSPGRP,       /* tcsetpgrp(3): shells; only of the own terminal */
    TIOCGSID,        /* tcgetsid(3) */
    TIOCSCTTY,       /* login_tty(3): the own terminal of a new process session */
    TIOCNOTTY,       /* daemons leave it */
    TIOCGPTN,        /* number of a pseudo-terminal, ptsname(3) */
    TIOCSPTLCK,      /* unlockpt(3) */
    TIOCGPTLCK,      /* its value */
    TIOCGPTPEER,     /* openpty(3): the other side of a pseudo-terminal */
    TIOCOUTQ,        /* what a socket has not sent yet, unix(7) */
    FIONREAD,        /* number of bytes that can be read */
    FIONBIO,         /* same effect as fcntl(2) */
    FIOCLEX,         /* same effect as fcntl(2) */
    FIONCLEX,        /* same effect as fcntl(2) */
    FICLONE,         /* cp(1): the copy is open for writing, ioctl_ficlonerange(2) */
    FICLONERANGE,    /* the same */
    FS_IOC_GETFLAGS, /* lsattr(1), git */
};

/* Without F_SETOWN, F_SETOWN_EX and F_SETSIG no descriptor sends signals to others. F_SETLEASE,
 * F_NOTIFY and F_SETDELEG (Linux 6.19) reveal what the host does with a file. A descriptor in a
 * message would hide its locks (F_OFD_SETLK) from init, which counts locks
 * (programs/common/objects.c). */
static const uint32_t descriptor_commands[] = {
    F_DUPFD,     F_DUPFD_CLOEXEC, F_GETFD,       F_SETFD,
    F_GETFL,     F_SETFL,         F_GETLK,       F_SETLK,
    F_SETLKW,    F_OFD_GETLK,     F_GETOWN,      F_GETOWN_EX, /* glibc's F_GETOWN uses it */
    F_GETLEASE,  F_SETPIPE_SZ,    F_GETPIPE_SZ,  F_ADD_SEALS,
    F_GET_SEALS, F_GET_RW_HINT,   F_SET_RW_HINT, /* databases: how long a file's data lives */
    1027, /* F_DUPFD_QUERY, Linux 6.10: whether two descriptors are one; guest/descriptors.py */
};

/* Without MADV_MERGEABLE (see PR_SET_MEMORY_MERGE) and without root's MADV_HWPOISON and
 * MADV_SOFT_OFFLINE. */
static const uint32_t advices[] = {
    MADV_NORMAL,   MADV_RANDOM,        MADV_SEQUENTIAL,     MADV_WILLNEED,
    MADV_DONTNEED, MADV_FREE,          MADV_REMOVE,         MADV_DONTFORK,
    MADV_DOFORK,   MADV_HUGEPAGE,      MADV_NOHUGEPAGE,     MADV_DONTDUMP,
    MADV_DODUMP,   MADV_WIPEONFORK,    MADV_KEEPONFORK,     MADV_COLD,
    MADV_PAGEOUT,  MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_DONTNEED_LOCKED,
    MADV_COLLAPSE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, /* stack guards: glibc 2.43 */
};

/* setsockopt(2), socket(7), ip(7), ipv6(7), tcp(7), udp(7). Not in the list: programs that the
 * kernel compiles (filters), zero copy (pins pages that others may see), TCP_ULP (attaches espintcp
 * and kTLS), keys, lists of sources and extension headers (socket memory that no cgroup counts, up
 * to optmem_max), names and numbers of interfaces, and what needs a capability. */
static const uint32_t socket_options[] = {
    SO_DEBUG,        SO_REUSEADDR,     SO_DONTROUTE,       SO_BROADCAST,        SO_SNDBUF,
    SO_RCVBUF,       SO_KEEPALIVE,     SO_OOBINLINE,       SO_NO_CHECK,         SO_PRIORITY,
    SO_LINGER,       SO_REUSEPORT,     SO_PASSCRED,        SO_RCVLOWAT,         SO_SNDLOWAT,
    SO_RCVTIMEO,     SO_SNDTIMEO,      SO_TIMESTAMP,       SO_PASSSEC,          SO_TIMESTAMPNS,
    SO_TIMESTAMPING, SO_RXQ_OVFL,      SO_PEEK_OFF,        SO_BUSY_POLL,        SO_MAX_PACING_RATE,
    SO_INCOMING_CPU, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW, SO_TIMESTAMPING_NEW, SO_RCVTIMEO_NEW,
    SO_SNDTIMEO_NEW, SO_PASSPIDFD};
static const uint32_t ip_options[] = {IP_TOS,
                                      IP_TTL,
                                      IP_RECVOPTS,
                                      IP_PKTINFO,
                                      IP_MTU_DISCOVER,
                                      IP_RECVERR,
                                      IP_RECVTTL,
                                      IP_RECVTOS,
                                      IP_FREEBIND,
                                      IP_MULTICAST_IF,
                                      IP_MULTICAST_TTL,
                                      IP_MULTICAST_LOOP,
                                      IP_ADD_MEMBERSHIP,
                                      IP_DROP_MEMBERSHIP,
                                      IP_MULTICAST_ALL,
                                      IP_RECVORIGDSTADDR,
                                      IP_BIND_ADDRESS_NO_PORT,
                                      IP_LOCAL_PORT_RANGE};
static const uint32_t ip6_options[] = {
    IPV6_UNICAST_HOPS, IPV6_MULTICAST_IF,  IPV6_MULTICAST_HOPS, IPV6_MULTICAST_LOOP,
    IPV6_JOIN_GROUP,   IPV6_LEAVE_GROUP,   IPV6_MTU_DISCOVER,   IPV6_RECVERR,
    IPV6_V6ONLY,       IPV6_MULTICAST_ALL, IPV6_RECVPKTINFO,    IPV6_RECVHOPLIMIT,
    IPV6_DONTFRAG,     IPV6_RECVTCLASS,    IPV6_TCLASS,         IPV6_FREEBIND};
static const uint32_t tcp_options[] = {
    TCP_NODELAY,      TCP_MAXSEG,           TCP_CORK,
    TCP_KEEPIDLE,     TCP_KEEPINTVL,        TCP_KEEPCNT,
    TCP_SYNCNT,       TCP_LINGER2,          TCP_DEFER_ACCEPT,
    TCP_WINDOW_CLAMP, TCP_QUICKACK,         TCP_CONGESTION,
    TCP_USER_TIMEOUT, TCP_FASTOPEN,         TCP_NOTSENT_LOWAT,
    TCP_SAVE_SYN,     TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE,
    TCP_INQ};
static const uint32_t udp_options[] = {UDP_CORK, UDP_SEGMENT, UDP_GRO};

/* Reading and setting the plain personality; nothing that weakens address randomisation. */
static const uint32_t personalities[] = {0, 0xffffffff};

static const uint32_t levels[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP};

#define LIST(name, argument, error, values)                                                        \
    {                                                                                              \
        name, argument, error, values, sizeof(values) / sizeof *(values), -1                       \
    }
#define OPTIONS(level, values)                                                                     \
    {                                                                                              \
        "setsockopt", 2, ENOPROTOOPT, values, sizeof(values) / sizeof *(values), level             \
    }

static const struct list {
    const char *name;
    unsigned argument;
    uint32_t error;
    const uint32_t *values;
    unsigned count; /* a jump covers up to 255 steps */
    int level;      /* the list is only for this second argument; -1: for any */
} option_lists[] = {
    LIST("prctl", 0, EINVAL, process_options),
    LIST("ioctl", 1, ENOTTY, requests),
    LIST("fcntl", 1, EINVAL, descriptor_commands),
    LIST("madvise", 2, EINVAL, advices),
    LIST("personality", 0, ENOSYS, personalities),
    LIST("setsockopt", 1, ENOPROTOOPT, levels),
    OPTIONS(SOL_SOCKET, socket_options),
    OPTIONS(IPPROTO_IP, ip_options),
    OPTIONS(IPPROTO_IPV6, ip6_options),
    OPTIONS(IPPROTO_TCP, tcp_options),
    OPTIONS(IPPROTO_UDP, udp_options),
};

enum {
    LISTS = sizeof option_lists / sizeof *option_lists,
    STEPS_MOST = 256, /* of all lists together */
};

/* The kernel reads only the low half of each of these arguments (CVE-2019-10063). */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half stands first");

static struct sock_filter load(size_t offset)
{
    return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static struct sock_filter unless_equal(uint32_t value, unsigned skip)
{
    return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, (uint8_t)skip);
}

static struct sock_filter when_equal(uint32_t value, unsigned skip)
{
    return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (uint8_t)skip, 0);
}

/* Compiles one list: other calls, and the values of the list, continue after it. Returns its
 * length. */
static unsigned compile(const struct list *list, uint32_t number, struct sock_filter *steps)
{
    unsigned at = 0;
    steps[at++] = load(offsetof(struct seccomp_data, nr));
    steps[at++] = unless_equal(number, list->count + (list->level < 0 ? 2 : 4));
    if (list->level >= 0) {
        steps[at++] = load(offsetof(struct seccomp_data, args) + sizeof(uint64_t));
        steps[at++] = unless_equal((uint32_t)list->level, list->count + 2);
    }
    steps[at++] = load(offsetof(struct seccomp_data, args) + list->argument * sizeof(uint64_t));
    for (unsigned i = 0; i < list->count; i++) {
        steps[at++] = when_equal(list->values[i], list->count - i);
    }
    steps[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | list->error);
    return at;
}

/* Puts the lists before a program on the heap. 0, -EINVAL or -ENOMEM. */
static int filter_add_lists(struct filter_program *filter)
{
    struct sock_filter steps[STEPS_MOST];
    uint32_t arch = filter->arch ? filter->arch : seccomp_arch_native();
    unsigned at = 2;
    for (unsigned i = 0; i < LISTS; i++) {
        int number = seccomp_syscall_resolve_name_arch(arch, option_lists[i].name);
        if (number < 0 || at + option_lists[i].count + 6 > STEPS_MOST) {
            return -EINVAL;
        }
        at += compile(&option_lists[i], (uint32_t)number, steps + at);
    }
    /* Other architectures have other numbers: the rest of the program handles their calls. */
    steps[0] = load(offsetof(struct seccomp_data, arch));
    steps[1] = unless_equal(arch, at - 2);
    struct sock_filter *grown = realloc(filter->program, (at + filter->count) * sizeof *grown);
    if (!grown) {
        return -ENOMEM;
    }
    memmove(grown + at, grown, filter->count * sizeof *grown);
    memcpy(grown, steps, at * sizeof *grown);
    filter->program = grown;
    filter->count += at;
    return 0;
}

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
