/* Allow-lists for the options of prctl(2), ioctl(2), fcntl(2), madvise(2), personality(2) and
 * setsockopt(2). Most versions of Linux add an option, so the filter refuses what nobody has
 * checked, with the errno of a kernel without that option. Programs then continue as on an older
 * kernel.
 *
 * libseccomp has no rule for "none of these values": refusing would take one rule for each value
 * outside the list. So the lists are compiled here and run before libseccomp's program. */
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/in6.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "sandbox/policy/filter.h"
#include "sandbox/policy/filter_parts.h"
#include "sandbox/policy/landlock_abi.h"

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
 * (programs/init/objects.c). */
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
} lists[] = {
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
    LISTS = sizeof lists / sizeof *lists,
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

int filter_add_lists(struct filter_program *filter)
{
    struct sock_filter steps[STEPS_MOST];
    uint32_t arch = filter->arch ? filter->arch : seccomp_arch_native();
    unsigned at = 2;
    for (unsigned i = 0; i < LISTS; i++) {
        int number = seccomp_syscall_resolve_name_arch(arch, lists[i].name);
        if (number < 0 || at + lists[i].count + 6 > STEPS_MOST) {
            return -EINVAL;
        }
        at += compile(&lists[i], (uint32_t)number, steps + at);
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
