#pragma once
#include <stdint.h>

#include "sandbox/confine/abi.h"

/* A second lock on the file view, for the day on which a mount is wrong. Linked into the server,
 * which only asks what the kernel has, and into pid 1's program, which applies it. */

enum {
    LANDLOCK_ABI_LEAST = 2,    /* the first one forbids every rename from folder to folder */
    LANDLOCK_ABI_TRUNCATE = 3, /* before it whoever may read may also empty */
    LANDLOCK_ABI_SCOPES = 6,   /* signals and abstract sockets stay within */
};

/* The version that the kernel offers; 0: none. */
int landlock_abi(void);

/* The file rights that a domain takes away from everything it does not name: all that version abi has,
 * as far as we know them (to version 9, Linux 7.1). */
uint64_t landlock_handled_fs(int abi);

/* What a rule allows below its path, or of it when it is a file. */
#define LANDLOCK_RULE_READ (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR)
#define LANDLOCK_RULE_WRITE                                                                        \
    ((LANDLOCK_FS_TRUNCATE << 1) - 1 - (LANDLOCK_FS_MAKE_CHAR | LANDLOCK_FS_MAKE_BLOCK))

/* Beside these: the path has no link in it. One that was put there since leads nowhere. Needs /proc. */
#define LANDLOCK_RULE_STRAIGHT (UINT64_C(1) << 63)

struct landlock_rule {
    const char *path; /* of nothing, or of what cannot be reached: nothing is allowed */
    uint64_t allowed; /* LANDLOCK_FS_*; what the kernel does not know is left out */
};

enum { LANDLOCK_NO_TCP = 1 }; /* flag: neither bind nor connect, from version 4 on */

/* Opens what a rule is about, with O_PATH. The descriptor, or -errno: -ELOOP, a link was in the way. */
int landlock_open(const struct landlock_rule *rule);

/* A ruleset for domains within the caller's: it takes no file away, and keeps signals and abstract sockets inside.
 * The descriptor, close-on-exec; or -errno: -EOPNOTSUPP where there is no Landlock. */
int landlock_nested_ruleset(void);

/* Confines this process and all its children to what the rules allow; no rules: no file at all. Paths are
 * looked up in the caller's own view. Needs no_new_privs. 0, or -errno with nothing changed: -EOPNOTSUPP
 * where there is no Landlock. */
int landlock_confine(const struct landlock_rule *rules, unsigned rule_count, unsigned flags);
