#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/confine/rlimits.h"
#include "sandbox/sandbox.h"

/* The start-up proof: that each layer holds is seen by its effect, in the box that is going to run
 * code, before it does. Two witnesses are heard. A process of pid 1's program, confined by the same
 * function as the interpreter, tries what must not work and sends a record (init/proof.c). And the
 * kernel's own account of the real interpreter, /proc/PID of the host, is read from outside
 * (proof_look.c), when it is ready. This file judges both and touches nothing. */

struct plan;

struct file_id {
    uint64_t device; /* both 0: not there */
    uint64_t inode;
};

/* Folders of the host that the box must not show: what has these names inside is another one. */
#define PROOF_FOLDERS                                                                              \
    {                                                                                              \
        "/", "/etc", "/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/home", "/root", "/.."      \
    }
enum { PROOF_FOLDER_COUNT = 11 };

/* What the inside witness tries. Each must fail, and with the error of the layer that is asked. */
enum proof_attempt {
    PROOF_UNSHARE,       /* a user namespace below this one */
    PROOF_MOUNT,         /* a tmpfs over /tmp */
    PROOF_PTRACE,        /* PTRACE_TRACEME */
    PROOF_IO_URING,      /* a call that only the filter by name refuses */
    PROOF_NETLINK,       /* a socket family that only the filter by argument refuses */
    PROOF_BECOME_ROOT,   /* setuid(0) */
    PROOF_CANARY,        /* the server's canary, by its path outside */
    PROOF_WRITE_ROOT,    /* a file in /etc */
    PROOF_WRITE_DEVICE,  /* /dev/urandom: the mounts allow it, Landlock does not */
    PROOF_SIGNAL_PARENT, /* pid 1 or the guardian: the ids allow it, Landlock's scope does not */
    PROOF_READ_PROC, /* /proc/self/status: without a /proc of the box's own Landlock alone forbids it */
    PROOF_MEMFD,     /* memory that no watchdog sees */
    PROOF_PRIORITY,      /* of the parent: it has the same user where there are no namespaces */
    PROOF_ATTEMPT_COUNT, /* what Landlock forbids is also tried before the confinement */
};

/* Mounts whose flags are asked for, and what each must have (ST_*, statvfs(3)). */
#define PROOF_MOUNTS                                                                               \
    {                                                                                              \
        {"/", ST_RDONLY | ST_NOSUID | ST_NODEV}, {"/usr", ST_RDONLY | ST_NOSUID | ST_NODEV},       \
            {"/work", ST_NOSUID | ST_NODEV}, {"/tmp", ST_NOSUID | ST_NODEV},                       \
            {"/tmp/output", ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC},                         \
    }
enum { PROOF_MOUNT_COUNT = 5 };

/* The box's own name, where it may have one. */
#define PROOF_HOSTNAME "sandbox"

struct proof_mount {
    const char *path;
    unsigned long flags;
};

enum { PROOF_LIMITS = 12, PROOF_MAGIC = 0x50524f46 };

/* In flags of a data folder: it is there. */
#define PROOF_DATA_THERE (1ULL << 63)

struct proof_record {
    uint32_t magic;
    int32_t step;  /* of the confinement, enum wire_step; what follows is empty then */
    int32_t error; /* of that step */
    int32_t no_new_privs;
    int32_t seccomp_mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t descriptors;     /* how many are open */
    uint32_t odd_descriptors; /* of them: beyond the control socket, or 0 to 2 and not /dev/null */
    int32_t attempts[PROOF_ATTEMPT_COUNT]; /* errno; 0: it worked */
    int32_t write_device_before;           /* the same before the confinement: the control */
    int32_t signal_parent_before;
    int32_t read_proc_before;
    int32_t has_proc;         /* a /proc of the box's own */
    int32_t has_hostname;     /* a name of the box's own */
    uint64_t capabilities[5]; /* inheritable, permitted, effective, bounding, ambient */
    struct file_id folders[PROOF_FOLDER_COUNT];
    uint64_t mount_flags[PROOF_MOUNT_COUNT];
    uint64_t data_flags[BOX_MOUNTS];    /* of their mounts; 0: not there */
    int32_t data_write[BOX_MOUNTS];     /* errno of making a nameless file there; 0: it worked */
    uint64_t limits_soft[PROOF_LIMITS]; /* in the order of rlimits_wanted() */
    uint64_t limits_hard[PROOF_LIMITS];
    uint64_t duration_ns; /* of the confinement and all attempts */
};

enum proof_namespace {
    PROOF_NS_USER,
    PROOF_NS_MOUNT,
    PROOF_NS_PID,
    PROOF_NS_NET,
    PROOF_NS_IPC,
    PROOF_NS_UTS,
    PROOF_NS_CGROUP,
    PROOF_NS_COUNT,
};

/* What the host's kernel says of a process. */
struct proof_view {
    struct file_id namespaces[PROOF_NS_COUNT];
    struct file_id root;
    struct file_id control; /* the network namespace of its control socket */
    uint64_t capabilities[5];
    int64_t no_new_privs;
    int64_t seccomp_mode;
    int64_t seccomp_filters; /* -1: this kernel does not say (before 5.10) */
    uint64_t uid;
    uint64_t gid;
};

/* What must hold. */
struct proof_expectation {
    struct proof_view server;
    struct file_id folders[PROOF_FOLDER_COUNT]; /* the host's */
    enum box_profile profile; /* BOX_CONTAINER: nothing is expected of namespaces and mounts */
    uid_t outside_uid;
    gid_t outside_gid;
    struct rlimit_sizes sizes;
    const char *const *data; /* what the box shows below /data */
    unsigned data_count;
    uint32_t data_writable; /* bits 1 << i */
    bool memory_watched;    /* by pid 1: there is a filter more */
    int landlock_abi;       /* 0: none is applied */
};

/* What was found wrong, by layer; empty: it holds. */
struct proof_verdict {
    char found[BOX_LAYER_COUNT][160];
    bool signals_pass; /* from one session to another: neither Landlock nor pid 1 judges them */
};

/* Pure. Each adds to verdict, and the first finding of a layer stays. size: of what was received;
 * the record is the guest side's word and may be anything. */
void proof_judge_record(const struct proof_record *record, size_t size,
                        const struct proof_expectation *expected, struct proof_verdict *verdict);
void proof_judge_view(const struct proof_view *interpreter,
                      const struct proof_expectation *expected, struct proof_verdict *verdict);
__attribute__((format(printf, 3, 4))) void proof_found(struct proof_verdict *verdict,
                                                       enum box_layer layer, const char *fmt, ...);

/* --- proof_look.c --- */

/* Reads what the kernel says of a process; pid 0: of this one. 0 or -errno. The files of another
 * user namespace's processes can be read by its maker, user_namespaces(7). */
int proof_look(pid_t pid, struct proof_view *ret_view);

/* The network namespace that a socket was made in, with which its owner's rights go, ioctl SIOCGSKNS
 * (Linux 4.9): for the maker of the user namespace that the network namespace belongs to, or for root.
 * 0 or -errno. */
int proof_look_socket(int socket_fd, struct file_id *ret_namespace);

/* The host's side of the folders. Those that the plan shows are the box's too: left empty. */
void proof_look_folders(const struct plan *plan, struct file_id folders[PROOF_FOLDER_COUNT]);
