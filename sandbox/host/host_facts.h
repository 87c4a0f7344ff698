#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "sandbox/types.h"

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

/* What a plan needs to know about this machine: found out once, so that building a plan is pure. */

enum {
    HOST_DIRECTORIES = 6,
    HOST_LINK_BYTES = 128,
    /* Ids that own nothing, far above those that distributions and sub-id ranges assign. */
    HOST_ID_INSTALLER = 1879048191,
    HOST_ID_FIRST,
    HOST_IDS = 4194304,
};

/* The directories of programs and libraries besides /usr; NULL ends the list. */
extern const char *const host_system_directories[HOST_DIRECTORIES + 1];

struct host_directory {
    bool exists;
    char target[HOST_LINK_BYTES]; /* of a symlink; else empty */
};

struct host_facts {
    uid_t uid; /* the server's effective ids */
    gid_t gid;
    pid_t pid;
    bool gives_ids;         /* the server can give a user namespace ids that own nothing */
    bool leaves_out_mounts; /* the server can, see box_cow_may_leave_out() */
    int landlock_abi;
    const char *writes_unseen; /* why init cannot be notified of what changes files, for
                                  sentences; NULL: it can. Static */
    struct host_directory system[HOST_DIRECTORIES]; /* of host_system_directories */
    bool has_nix_store;
    uint32_t etc_python; /* bits 1 << N: /etc/python3.N exists */
    int workspace_error; /* 0, or the errno value of resolving it; 0 where none is named */
    struct box_processors processors; /* which the server may use */
    uid_t workspace_uid;
    gid_t workspace_gid;
};

/* Without spec, only what decides about ids: nothing about files. */
void host_facts_read(const struct box_spec *spec, struct host_facts *ret_facts);

/* Whether a child namespace can be given this id of the parent user namespace. All can on a plain
 * host; inside a namespace that maps a few ids, only those. user_namespaces(7). */
bool idmap_covers(uid_t id);
/* Whether all of these are effective in this process. */
bool idmap_has_capabilities(const cap_value_t *needed, size_t count);

struct idmap {
    uid_t disk_uid; /* owner of a file on disk */
    gid_t disk_gid;
    uid_t outside_uid; /* the same owner in the tree, and the reverse */
    gid_t outside_gid;
    bool top_only; /* without what is mounted below */
};

/* Maps the only ids of a process in a new user namespace: there, they are the disk's. 0 or -errno
 */
int idmap_write(pid_t pid, const struct idmap *idmap);

/* A detached tree of the directory that fd holds (O_PATH), writable and with mapped ids, so that a
 * sandbox with one uid can work in a directory of another. Needs root, and support by the file
 * system: mount_setattr(2), Linux 5.12. Returns a descriptor or -errno. */
int idmap_tree(int fd, const struct idmap *idmap);

/* Whether path is a regular file that this process may execute. */
bool helper_is_program(const char *path);
/* The first program of that name in directories as in PATH, of which only absolute ones count. */
bool helper_find(const char *directories, const char *name, char path[PATH_MAX]);

/* Starts a program of the host that works for the server outside any sandbox. The program gets only
 * what it is given: the root directory, its own process session, no blocked signals, these
 * arguments and variables, and /dev/null as standard streams. stream: STDOUT_FILENO or
 * STDERR_FILENO, goes to a pipe instead; *ret_fd is the pipe's end for reading, non-blocking. path:
 * absolute, and accepted by trust.h. *ret_pid: a child, to be ended with helper_end(). 0 or
 * -errno */
[[nodiscard]] int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                               pid_t *ret_pid, int *ret_fd);

/* Kills the program with its process group and reaps it. */
void helper_end(pid_t pid);
