#pragma once
#include <stdint.h>

/* Restricts files a second time, in case a mount is wrong. The server uses it to find out what the
 * kernel has, init to apply it. */

enum {
    LANDLOCK_ABI_LEAST = 2,    /* version 1 forbids every rename between directories */
    LANDLOCK_ABI_TRUNCATE = 3, /* before it, reading a file includes emptying it */
    LANDLOCK_ABI_SCOPES = 6,   /* signals and abstract sockets stay inside */
};

/* The version of Landlock in the kernel; 0: none. */
int landlock_abi(void);

/* The file rights that a domain removes from everything that no rule names: all rights of version
 * abi, as far as they are known (up to version 9, Linux 7.1). */
uint64_t landlock_handled_fs(int abi);

/* What a rule allows below its path, or for a file. */
#define LANDLOCK_RULE_READ (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
#define LANDLOCK_RULE_WRITE                                                                        \
    ((LANDLOCK_FS_TRUNCATE << 1) - 1 - (LANDLOCK_FS_MAKE_CHAR | LANDLOCK_FS_MAKE_BLOCK))

/* Can be added: the path has no symlink. If one is put there later, the rule allows nothing. Needs
 * /proc. */
#define LANDLOCK_RULE_STRAIGHT (UINT64_C(1) << 63)

struct landlock_rule {
    const char *path; /* missing or unreachable: allows nothing */
    uint64_t allowed; /* LANDLOCK_FS_*; ignores what the kernel does not know */
    int fd;           /* where path is NULL: what it would lead to; borrowed */
};

enum { LANDLOCK_NO_TCP = 1 }; /* flag: neither bind nor connect, since version 4 */

/* Opens the rule's path with O_PATH, or duplicates its descriptor. The descriptor, or -errno;
 * -ELOOP: the path has a symlink. */
int landlock_open(const struct landlock_rule *rule);

/* A ruleset for domains within the caller's: it restricts no files, and keeps signals and abstract
 * sockets inside. The descriptor, close-on-exec; or -errno: -EOPNOTSUPP without Landlock. */
int landlock_nested_ruleset(void);

/* Restricts this process and its children to what the rules allow; without rules, to no files at
 * all. Paths are resolved by the caller. Needs no_new_privs. 0, or -errno without any change:
 * -EOPNOTSUPP without Landlock. */
int landlock_confine(const struct landlock_rule *rules, unsigned rule_count, unsigned flags);

/* Numbers of the kernel's interface that are missing from the headers of the oldest distribution
 * for building (Debian 12: Linux 6.1), each with the version that introduced it. They are the same
 * on all architectures. The code that uses them says what happens on an older kernel. */

/* landlock(7), by ABI version. Versions 8 and 10 only add flags that are not needed here, and
 * rights for UDP. */
#define LANDLOCK_FS_EXECUTE (1ULL << 0) /* 1: Linux 5.13 */
#define LANDLOCK_FS_WRITE_FILE (1ULL << 1)
#define LANDLOCK_FS_READ_FILE (1ULL << 2)
#define LANDLOCK_FS_READ_DIR (1ULL << 3)
#define LANDLOCK_FS_REMOVE_DIR (1ULL << 4)
#define LANDLOCK_FS_REMOVE_FILE (1ULL << 5)
#define LANDLOCK_FS_MAKE_CHAR (1ULL << 6)
#define LANDLOCK_FS_MAKE_DIR (1ULL << 7)
#define LANDLOCK_FS_MAKE_REG (1ULL << 8)
#define LANDLOCK_FS_MAKE_SOCK (1ULL << 9)
#define LANDLOCK_FS_MAKE_BLOCK (1ULL << 11)
#define LANDLOCK_FS_MAKE_SYM (1ULL << 12)
#define LANDLOCK_FS_REFER (1ULL << 13)                 /* 2: Linux 5.19 */
#define LANDLOCK_FS_TRUNCATE (1ULL << 14)              /* 3: Linux 6.2 */
#define LANDLOCK_FS_IOCTL_DEV (1ULL << 15)             /* 5: Linux 6.10 */
#define LANDLOCK_FS_RESOLVE_UNIX (1ULL << 16)          /* 9: Linux 7.1 */
#define LANDLOCK_NET_BIND_TCP (1ULL << 0)              /* 4: Linux 6.7 */
#define LANDLOCK_NET_CONNECT_TCP (1ULL << 1)           /* 4 */
#define LANDLOCK_SCOPED_ABSTRACT_UNIX (1ULL << 0)      /* 6: Linux 6.12 */
#define LANDLOCK_SCOPED_SIGNAL (1ULL << 1)             /* 6 */
#define LANDLOCK_RESTRICT_LOG_SAME_EXEC_OFF (1U << 0)  /* 7: Linux 6.15 */
#define LANDLOCK_RESTRICT_LOG_SUBDOMAINS_OFF (1U << 2) /* 7 */

#ifndef MFD_HUGETLB /* Linux 4.14; glibc has it only in its own header */
#define MFD_HUGETLB 0x0004U
#endif
#ifndef MFD_EXEC /* Linux 6.3; before that, every memfd is executable */
#define MFD_EXEC 0x0010U
#endif
#ifndef PR_SME_GET_VL /* Linux 5.19 */
#define PR_SME_GET_VL 64
#endif
#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED /* Linux 5.18 */
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1 */
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL /* Linux 6.13 */
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

#ifndef SO_PASSPIDFD /* Linux 6.5 */
#define SO_PASSPIDFD 76
#endif
#ifndef IP_LOCAL_PORT_RANGE /* Linux 6.3 */
#define IP_LOCAL_PORT_RANGE 51
#endif

/* seccomp(2), <linux/seccomp.h>. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* Linux 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define NOTIFY_SET_FLAGS _IOW('!', 4, uint64_t) /* SECCOMP_IOCTL_NOTIF_SET_FLAGS: Linux 6.6 */
#define NOTIFY_SYNC_WAKE_UP (1UL << 0)          /* SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP */
