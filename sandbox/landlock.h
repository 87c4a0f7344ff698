#pragma once

/* A second lock on the file view, for the day on which a mount is wrong. Linked into the server,
 * which only asks what the kernel has, and into pid 1's program, which applies it. */

enum {
    LANDLOCK_ABI_LEAST = 2,  /* the first one forbids every rename from folder to folder */
    LANDLOCK_ABI_SCOPES = 6, /* signals and abstract sockets stay within */
};

/* The version that the kernel offers; 0: none. */
int landlock_abi(void);

/* Confines this process and all its children: / can be read and executed, /work, /tmp and /dev/shm
 * be written as well but for device nodes. Everything is looked up in the caller's own view. Needs
 * no_new_privs. 0, or -errno with nothing changed: -EOPNOTSUPP where there is no Landlock. */
int landlock_confine(void);
