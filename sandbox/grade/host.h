#pragma once
#include <stdbool.h>
#include <stdint.h>

/* What explains on this host why a layer cannot be had, for remedies. Only ever an explanation: what
 * holds is found out by trying. */

enum host_container {
    HOST_BARE,
    HOST_DOCKER,
    HOST_PODMAN,
    HOST_KUBERNETES,
    HOST_FIREJAIL,
    HOST_CONTAINER
};

struct host {
    enum host_container container;  /* by the marks that engines leave */
    bool filtered;                  /* the server itself runs under seccomp filters */
    bool apparmor_restricts_userns; /* Ubuntu 23.10 and newer: capabilities in a new user namespace
                                     * only for programs with a profile */
    bool inside_userns;    /* not the first user namespace: its bounds are somebody else's */
    bool chrooted;         /* seen by root only */
    bool userns_clone_off; /* Debian's sysctl kernel.unprivileged_userns_clone is 0 */
    bool userns_none;      /* sysctl user.max_user_namespaces is 0 */
    bool proc_masked;      /* something is mounted over parts of /proc: new ones are refused then */
    int landlock_error;    /* errno of asking for its version; 0: it is there */
    char apparmor[64];     /* the profile that confines the server, or empty */
    char lsm[160];         /* the kernel's security modules; empty: unknown */
    char program[256];     /* the server's own path; empty: unknown */
};

void host_look(struct host *ret_host);
