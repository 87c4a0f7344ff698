#pragma once
#include <stdint.h>

#include "sandbox/policy/landlock_abi.h"

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
