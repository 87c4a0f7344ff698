#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Explains why this host lacks a protection, for fixes. It decides nothing: what is possible is
 * found by trying. */

enum host_container {
    HOST_BARE,
    HOST_DOCKER,
    HOST_PODMAN,
    HOST_KUBERNETES,
    HOST_FIREJAIL,
    HOST_CONTAINER
};

struct host {
    enum host_container container; /* by the marks that engines leave */
    bool filtered;                 /* the server itself runs under seccomp filters */
    /* Since Ubuntu 23.10: no capabilities in a user namespace without AppArmor profile. */
    bool apparmor_restricts_userns;
    bool inside_userns;    /* not the first user namespace: its creator set the limits */
    bool chrooted;         /* only root can see it */
    bool userns_clone_off; /* Debian's sysctl kernel.unprivileged_userns_clone is 0 */
    bool userns_none;      /* sysctl user.max_user_namespaces is 0 */
    bool memfd_noexec;     /* sysctl vm.memfd_noexec is 2: no program in memory can be executed */
    bool counts_outside;   /* RLIMIT_NPROC counts the user's processes outside the sandbox too */
    bool proc_masked; /* something is mounted over parts of /proc: the kernel then refuses a new one
                       */
    int landlock_error; /* errno of the call for its version; 0: available */
    char apparmor[64];  /* the AppArmor profile that confines the server, or empty */
    char lsm[160];      /* the kernel's security modules; empty: unknown */
    char program[256];  /* the server's own path; empty: unknown */
};

/* RLIMIT_NPROC counts in each user namespace since Linux 5.14. */
bool host_counts_outside(void);

void host_look(struct host *ret_host);
