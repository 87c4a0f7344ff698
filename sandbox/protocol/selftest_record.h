#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox/types.h"

/* What the self-test inside a sandbox tries, and the record that it sends. Shared by init and the
 * server, which checks the record (report/report.h). */

struct file_id {
    uint64_t device; /* both 0: not there */
    uint64_t inode;
};

/* Directories of the host that the sandbox must not show: inside, these names are other
 * directories. */
#define SELFTEST_DIRECTORIES                                                                       \
    {                                                                                              \
        "/", "/etc", "/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/home", "/root", "/.."      \
    }
enum { SELFTEST_DIRECTORY_COUNT = 11 };

/* What the self-test tries inside. Each attempt must fail, with the error of the protection that it
 * tests. */
enum selftest_attempt {
    SELFTEST_UNSHARE,       /* a user namespace below this one */
    SELFTEST_MOUNT,         /* a tmpfs over /tmp */
    SELFTEST_PTRACE,        /* PTRACE_TRACEME */
    SELFTEST_IO_URING,      /* a call that only the filter by name refuses */
    SELFTEST_NETLINK,       /* a protocol that only the filter by argument refuses */
    SELFTEST_BECOME_ROOT,   /* setuid(0) */
    SELFTEST_CANARY,        /* the server's canary, by its path outside */
    SELFTEST_WRITE_ROOT,    /* a file in /etc */
    SELFTEST_WRITE_DEVICE,  /* /dev/urandom: the mounts allow it, Landlock does not */
    SELFTEST_SIGNAL_PARENT, /* the parent, by ids allowed, by Landlock's scope not */
    SELFTEST_READ_PROC, /* /proc/self/status: without a separate /proc only Landlock forbids it */
    SELFTEST_MEMFD,     /* memory that no watchdog sees */
    SELFTEST_UNCOVER,   /* unmounts what covers a part of /proc */
    SELFTEST_PRIORITY,  /* of the parent, which without namespaces has the same user */
    SELFTEST_ATTEMPT_COUNT, /* what Landlock forbids is also tried before the confinement */
};

/* Mounts whose flags are recorded, and the flags that each must have (ST_*, statvfs(3)). */
#define SELFTEST_MOUNTS                                                                            \
    {                                                                                              \
        {"/", ST_RDONLY | ST_NOSUID | ST_NODEV}, {"/usr", ST_RDONLY | ST_NOSUID | ST_NODEV},       \
            {"/work", ST_NOSUID | ST_NODEV}, {"/tmp", ST_NOSUID | ST_NODEV},                       \
            {"/tmp/output", ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC},                         \
    }
enum { SELFTEST_MOUNT_COUNT = 5 };

struct selftest_mount {
    const char *path;
    unsigned long flags;
};

/* What the sandbox shows of /proc as the kernel has it, besides processes and symlinks: what other
 * calls tell as well (uname(2), sysinfo(2), clock_gettime(2)), and the kernel's file systems. Of
 * all other names, it shows what is mounted over them. */
static inline bool selftest_proc_is_shown(const char *name)
{
    static const char *const shown[] = {"filesystems", "loadavg", "uptime", "version"};
    for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
        if (strcmp(name, shown[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether it is no name of the machine. */
static inline bool selftest_proc_is_process(const char *name)
{
    return name[strspn(name, ".")] == '\0' || name[strspn(name, "0123456789")] == '\0';
}

enum { SELFTEST_LIMITS = 12, SELFTEST_MAGIC = 0x50524f46 };

/* In the flags of a data directory: it exists. */
#define SELFTEST_DATA_THERE (1ULL << 63)

/* The machine's device nodes that code has, each mounted read-only. */
#define SELFTEST_DEVICES                                                                           \
    {                                                                                              \
        "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"                       \
    }

struct selftest_record {
    uint32_t magic;
    int32_t step;  /* of the confinement, enum wire_step; if set, the rest is empty */
    int32_t error; /* of that step */
    int32_t no_new_privs;
    int32_t seccomp_mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t descriptors;     /* number of open descriptors */
    uint32_t odd_descriptors; /* of these: not the control socket, nor 0 to 2 on /dev/null */
    int32_t attempts[SELFTEST_ATTEMPT_COUNT]; /* errno; 0: the attempt succeeded */
    int32_t write_device_before;              /* the same before the confinement, as a control */
    int32_t signal_parent_before;
    int32_t read_proc_before;
    uint32_t uncovered;       /* names in /proc that tell of the host or could be written to, */
    char uncovered_name[32];  /* and the first of them */
    int32_t has_proc;         /* whether the sandbox has a separate /proc */
    int32_t has_machine;      /* whether that has figures of the machine too */
    int32_t has_hostname;     /* whether the sandbox has a separate host name */
    uint64_t capabilities[5]; /* inheritable, permitted, effective, bounding, ambient */
    struct file_id directories[SELFTEST_DIRECTORY_COUNT];
    uint64_t mount_flags[SELFTEST_MOUNT_COUNT];
    uint64_t data_flags[BOX_MOUNTS]; /* of their mounts; 0: missing */
    int32_t data_write[BOX_MOUNTS];  /* errno of making a nameless file there; 0: it succeeded */
    uint64_t limits_soft[SELFTEST_LIMITS]; /* in the order of rlimits_wanted() */
    uint64_t limits_hard[SELFTEST_LIMITS];
    uint64_t duration_ns; /* of the confinement and all attempts */
};
