#pragma once
#include <stdint.h>

/* A second lock on the file view, for the day on which a mount is wrong. Linked into the server,
 * which only asks what the kernel has, and into pid 1's program, which applies it. */

enum {
    LANDLOCK_ABI_LEAST = 2,  /* the first one forbids every rename from folder to folder */
    LANDLOCK_ABI_SCOPES = 6, /* signals and abstract sockets stay within */
};

/* The version that the kernel offers; 0: none. */
int landlock_abi(void);

/* The file rights that a domain takes away from everything it does not name: all that version abi has,
 * as far as we know them (to version 9, Linux 7.1). */
uint64_t landlock_handled_fs(int abi);

/* Confines this process and all its children: / can be read and executed, /work, /tmp and /dev/shm
 * be written as well but for device nodes. Everything is looked up in the caller's own view. Needs
 * no_new_privs. 0, or -errno with nothing changed: -EOPNOTSUPP where there is no Landlock. */
int landlock_confine(void);
/* The same without any file, for a process that opens none. */
int landlock_confine_blind(void);
