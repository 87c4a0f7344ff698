/* The protections of each isolation level, as data. */
#include "sandbox/report/isolation.h"
#include "sandbox/report/report.h"

/* A protection without which no code runs, and which is on. */
#define ALWAYS(detail)                                                                             \
    {                                                                                              \
        true, BOX_PROTECTION_ON, detail, ""                                                        \
    }

#define WALLS                                                                                      \
    [BOX_PROTECTION_PRIVILEGES] = ALWAYS("no capabilities, no_new_privs, unused uid and gid"),     \
    [BOX_PROTECTION_SECCOMP] =                                                                     \
        ALWAYS("filters system calls by name and argument, native architecture only"),             \
    [BOX_PROTECTION_LANDLOCK] = {false, BOX_PROTECTION_ON, "restricts files",                      \
                                 "only the mounts protect files; code of one session can read "    \
                                 "and change the memory of other sessions"},                       \
    [BOX_PROTECTION_PYTHON] = ALWAYS("")

static const struct level_row full[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = ALWAYS("user, mount, pid, net, ipc, uts, cgroup"),
    [BOX_PROTECTION_MOUNTS] = ALWAYS("new root, read-only except /work, /tmp and /dev/shm"),
    WALLS,
};

static const struct level_row without_proc[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] =
        ALWAYS("user, mount, pid, net, ipc, uts, cgroup; only the filters refuse further ones"),
    [BOX_PROTECTION_MOUNTS] = {true, BOX_PROTECTION_DEGRADED,
                               "new root, read-only except /work, /tmp and /dev/shm; /proc has no "
                               "processes: the kernel refuses to mount a new one",
                               "programs that read of processes in /proc, or /dev/fd or "
                               "/dev/stdin, do not work: ps, top"},
    WALLS,
};

static const struct level_row container[BOX_PROTECTION_COUNT] = {
    [BOX_PROTECTION_NAMESPACES] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                                   "code can detect other processes; hostname, kernel and users "
                                   "are visible; no private loopback; only the filters refuse "
                                   "System V objects"},
    [BOX_PROTECTION_MOUNTS] = {false, BOX_PROTECTION_OFF, "none at this isolation level",
                               "file names, sizes and times outside are visible; no private /tmp "
                               "or /proc"},
    [BOX_PROTECTION_PRIVILEGES] =
        ALWAYS("no capabilities, no_new_privs; a supervisor kills all processes of the code"),
    [BOX_PROTECTION_SECCOMP] = ALWAYS(
        "filters system calls by name and argument, a supervisor performs some of them, native "
        "architecture only"),
    [BOX_PROTECTION_LANDLOCK] = ALWAYS("restricts files outside the workspace"),
    [BOX_PROTECTION_PYTHON] = ALWAYS(""),
};

const struct level_row *level_row(enum box_level level, enum box_protection protection)
{
    static const struct level_row *const rows[] = {
        [BOX_FULL] = full, [BOX_FULL_WITHOUT_PROC] = without_proc, [BOX_CONTAINER] = container};
    return &rows[level][protection];
}

const char *box_level_name(enum box_level level)
{
    static const char *const names[] = {
        [BOX_FULL] = "full",
        [BOX_FULL_WITHOUT_PROC] = "full without /proc",
        [BOX_CONTAINER] = "container",
    };
    return names[level];
}

const char *const *box_level_not_promised(enum box_level level)
{
    static const char *const nothing[] = {NULL};
    static const char *const not_promised[] = {
        "file names, sizes and times outside are visible",
        "code can detect other processes",
        "hostname, kernel and users are visible",
        ("limits are checked, not enforced: memory every 25 ms if no control group limits it, disk "
         "and inodes at least every half second"),
        "no private /tmp, /proc or loopback",
        "code can open device nodes in a --mount directory",
        "code shares the container's uid if no other uid is available",
        "if server and supervisor are killed together, code may outlive them",
        ("without Landlock ABI 6 only seccomp restricts signals, without ABI 3 only seccomp "
         "restricts truncation"),
        NULL,
    };
    return level == BOX_CONTAINER ? not_promised : nothing;
}
