/* Allow-lists of what one call is asked to do: prctl(2), ioctl(2), fcntl(2) and madvise(2) have grown an
 * option with most versions of Linux, so what nobody has checked is refused, with the errno that a kernel
 * without that option gives. Programs that ask for it go on as on an older kernel.
 *
 * libseccomp has no rule for "none of these values": a comparison that is refused would need one rule for
 * each value that is not in the list. So the lists are compiled here, and stand before its program. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "sandbox/confine/abi.h"
#include "sandbox/confine/filter_parts.h"
#include "sandbox/plan/plan.h"

/* Not in the list, of those that programs do ask for:
 * PR_SET_DUMPABLE        hides memory and descriptors from who counts them, and from init's checks
 * PR_SET_SECCOMP         each filter is kernel memory that nobody counts; seccomp(2) is refused as well
 * PR_FUTEX_HASH          up to 256 MiB of tables a process, counted by nobody (Linux 6.16)
 * PR_SET_MEMORY_MERGE    merged pages tell others what is in them, and their bookkeeping is not counted
 * PR_SET_VMA             names of mappings are kernel memory; libraries ignore the refusal
 * PR_SCHED_CORE          a cookie of one's own keeps others off the sibling processors
 * PR_SET_PTRACER, PR_SET_MM, PR_MCE_KILL, PR_SET_SPECULATION_CTRL: control of others, of what /proc says, of
 * the machine's faults, and of the processor's mitigations. */
static const uint32_t process_options[] = {
    PR_SET_PDEATHSIG,        /* a child that ends with its parent */
    PR_GET_PDEATHSIG,        /* its value */
    PR_GET_DUMPABLE,         /* a flag of one's own */
    PR_SET_NAME,             /* threads' names, in /proc and ps */
    PR_GET_NAME,             /* the same */
    PR_GET_SECCOMP,          /* is there a filter; our own self-test asks */
    PR_CAPBSET_READ,         /* which capabilities the kernel knows: libcap, our own self-test */
    PR_GET_SECUREBITS,       /* libcap */
    PR_GET_KEEPCAPS,         /* libcap */
    PR_SET_TIMERSLACK,       /* of one's own timers */
    PR_GET_TIMERSLACK,       /* its value */
    PR_SET_CHILD_SUBREAPER,  /* small inits and process managers; refused in a container */
    PR_GET_CHILD_SUBREAPER,  /* its value */
    PR_SET_NO_NEW_PRIVS,     /* only ever takes away: programs that sandbox themselves */
    PR_GET_NO_NEW_PRIVS,     /* its value */
    PR_GET_TID_ADDRESS,      /* guest/orphan.py */
    PR_SET_THP_DISABLE,      /* allocators and databases, for less memory */
    PR_GET_THP_DISABLE,      /* its value */
    PR_CAP_AMBIENT,          /* the set is empty and stays so: our own self-test asks */
    PR_SVE_GET_VL,           /* 64-bit ARM: how long a vector is */
    PR_SME_GET_VL,           /* the same */
    PR_GET_SPECULATION_CTRL, /* what the processor's mitigations are */
};

/* Others type into terminals (TIOCSTI: CVE-2017-5226, CVE-2023-28100), list interfaces of a socket's network
 * (SIOCGIF...), send signals to whoever owns a descriptor (FIOSETOWN, FIOASYNC), change attributes of files
 * that were opened for reading (FS_IOC_SETFLAGS, FS_IOC_ENABLE_VERITY), tell where a file lies on the disk
 * (FS_IOC_FIEMAP), share extents by the owner's right alone (FIDEDUPERANGE), or are a file system's own
 * (BTRFS_IOC_SNAP_CREATE of a whole subvolume). */
static const uint32_t requests[] = {
    TCGETS,          /* isatty(3) */
    0x802c542a,      /* TCGETS2: isatty(3) of glibc 2.42 */
    TIOCGWINSZ,      /* a terminal's size */
    TIOCGPGRP,       /* tcgetpgrp(3) */
    TIOCOUTQ,        /* what a socket has not sent, unix(7) */
    FIONREAD,        /* what can be read */
    FIONBIO,         /* as fcntl(2) does */
    FIOCLEX,         /* as fcntl(2) does */
    FIONCLEX,        /* as fcntl(2) does */
    FICLONE,         /* cp(1): the copy is open for writing, ioctl_ficlonerange(2) */
    FICLONERANGE,    /* the same */
    FS_IOC_GETFLAGS, /* lsattr(1), git */
};

/* Without F_SETOWN, F_SETOWN_EX and F_SETSIG no signal is sent to others by a descriptor; F_SETLEASE, F_NOTIFY
 * and F_SETDELEG (Linux 6.19) tell what the host does with a file. */
static const uint32_t descriptor_commands[] = {
    F_DUPFD,       F_DUPFD_CLOEXEC, F_GETFD,      F_SETFD,     F_GETFL,
    F_SETFL,       F_GETLK,         F_SETLK,      F_SETLKW,    F_OFD_GETLK,
    F_OFD_SETLK,   F_OFD_SETLKW,    F_GETOWN,     F_GETOWN_EX, /* what glibc's F_GETOWN asks */
    F_GETLEASE,    F_SETPIPE_SZ,    F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
    F_GET_RW_HINT, F_SET_RW_HINT, /* databases: how long a file's data live */
};

/* Not MADV_MERGEABLE (see PR_SET_MEMORY_MERGE) and what is root's: MADV_HWPOISON, MADV_SOFT_OFFLINE. */
static const uint32_t advices[] = {
    MADV_NORMAL,   MADV_RANDOM,        MADV_SEQUENTIAL,     MADV_WILLNEED,
    MADV_DONTNEED, MADV_FREE,          MADV_REMOVE,         MADV_DONTFORK,
    MADV_DOFORK,   MADV_HUGEPAGE,      MADV_NOHUGEPAGE,     MADV_DONTDUMP,
    MADV_DODUMP,   MADV_WIPEONFORK,    MADV_KEEPONFORK,     MADV_COLD,
    MADV_PAGEOUT,  MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_DONTNEED_LOCKED,
    MADV_COLLAPSE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, /* stacks' ends: glibc 2.43 */
};

#define LIST(name, argument, error, values)                                                        \
    {                                                                                              \
        name, argument, error, values, sizeof values / sizeof *values                              \
    }

static const struct list {
    const char *name;
    unsigned argument;
    uint32_t error;
    const uint32_t *values;
    unsigned count; /* a jump reaches 255 steps */
} lists[] = {
    LIST("prctl", 0, EINVAL, process_options),
    LIST("ioctl", 1, ENOTTY, requests),
    LIST("fcntl", 1, EINVAL, descriptor_commands),
    LIST("madvise", 2, EINVAL, advices),
};

enum {
    LISTS = sizeof lists / sizeof *lists,
    STEPS_MOST = 160, /* of all lists together */
};

/* The kernel reads the low half of each of these arguments only (CVE-2019-10063). */
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

/* One list: another call, and a value of the list, go on behind it. Returns its length. */
static unsigned compile(const struct list *list, uint32_t number, struct sock_filter *steps)
{
    unsigned at = 0;
    steps[at++] = load(offsetof(struct seccomp_data, nr));
    steps[at++] = unless_equal(number, list->count + 2);
    steps[at++] = load(offsetof(struct seccomp_data, args) + list->argument * sizeof(uint64_t));
    for (unsigned i = 0; i < list->count; i++) {
        steps[at++] = when_equal(list->values[i], list->count - i);
    }
    steps[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | list->error);
    return at;
}

int filter_add_lists(struct plan_filter *filter)
{
    struct sock_filter steps[STEPS_MOST];
    uint32_t arch = filter->arch ? filter->arch : seccomp_arch_native();
    unsigned at = 2;
    for (unsigned i = 0; i < LISTS; i++) {
        int number = seccomp_syscall_resolve_name_arch(arch, lists[i].name);
        if (number < 0 || at + lists[i].count + 4 > STEPS_MOST) {
            return -EINVAL;
        }
        at += compile(&lists[i], (uint32_t)number, steps + at);
    }
    /* Of another architecture's calls, whose numbers mean others, the rest of the program knows. */
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
