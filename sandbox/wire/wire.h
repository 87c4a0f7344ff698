#pragma once
#include <stdint.h>

#include "base/limits.h"

/* What the server and pid 1 of a box say to each other, over a SOCK_SEQPACKET pair: one struct a
 * packet; descriptors go from pid 1 to the server only. pid 1 is our own program (sandbox/init), the
 * guest can neither read its memory nor send on its socket; the server still checks what it receives.
 *
 * A socket belongs to the network namespace that it was made in, wherever it is sent,
 * network_namespaces(7). So each one that a guest holds is made by pid 1, which gives the server the
 * other end.
 *
 * All pids are those of the box's pid namespace. */

/* Descriptors that pid 1 starts with. */
enum {
    WIRE_INIT_FD = 3,
    WIRE_CONFIG_FD,
    WIRE_OUTPUT_FD, /* with a root of its own: the directory of view.h's output, where it can be written */
};

enum wire_op {
    WIRE_START_ZYGOTE, /* Answer: pid, fd: the server's end of its control socket, with SO_PASSCRED */
    WIRE_START_PROGRAM, /* An errand's. Answer: pid, fds: the server's ends of a socket that is its 0
                           and 3, with SO_PASSCRED, and of a pipe that is its 1 and 2 */
    WIRE_PROVE,         /* path: the canary's. Answer: fd: a SOCK_SEQPACKET for one proof_record */
    WIRE_PAIR,          /* Answer: a WIRE_PAIR_MADE */
    WIRE_LISTEN,      /* Answer: fd: a TCP socket that listens on EGRESS_PROXY_PORT of 127.0.0.1 */
    WIRE_WATCH,       /* pid, tag, role. Answer: pid. From now on its end is reported */
    WIRE_SIGNAL,      /* pid, signal: a watched process or the zygote */
    WIRE_TRACE,       /* pid: WIRE_TRACE_SIGNAL to a thread of a session that is at work */
    WIRE_KILL_TAG,    /* tag: everything with that tag, watched or not, but checkpoints */
    WIRE_OPEN_READ,   /* path. Answer: fd, file */
    WIRE_OPEN_WRITE,  /* path, mode. Answer: fd, file, token */
    WIRE_COMMIT,      /* token: what was written takes its name */
    WIRE_ABORT,       /* token */
    WIRE_MAKE_OUTPUT, /* path: a name. Answer: fd of a new file in the directory for outputs */
    WIRE_REMOVE_OUTPUT, /* path: its name */
    WIRE_OP_COUNT,
};

enum wire_event {
    WIRE_ANSWER, /* to the request with this id; error is an errno value or 0 */
    WIRE_EXITED, /* pid, status as of waitpid(2) */
    WIRE_MEMORY, /* the watchdog killed pid: all processes together used memory_bytes */
    WIRE_DISK,   /* the stage or the room holds disk_bytes, or disk_files, more than it may; pid is
                       killed, or, 0, all but pid 1 */
    WIRE_PAIR_MADE, /* error, or two descriptors: a connected SOCK_STREAM pair */
    WIRE_EVENT_COUNT,
};

/* Steps of the confinement: exit codes of a zygote that could not be confined or executed. */
enum wire_step {
    WIRE_STEP_NONE,
    WIRE_STEP_SESSION = 101,
    WIRE_STEP_LIMITS,
    WIRE_STEP_DESCRIPTORS,
    WIRE_STEP_SECCOMP,
    WIRE_STEP_EXECUTE,
    WIRE_STEP_FIND,
    WIRE_STEP_LANDLOCK,
    WIRE_STEP_IDS,
    WIRE_STEP_LISTENER,
};

enum wire_role { WIRE_ROLE_SESSION, WIRE_ROLE_CHECKPOINT, WIRE_ROLE_ZYGOTE /* a lookout's */ };

enum wire_write_mode { WIRE_WRITE_OVERWRITE, WIRE_WRITE_CREATE, WIRE_WRITE_APPEND };

enum { WIRE_TAGS = 64, WIRE_FDS = 2 };

/* A real-time signal that programs hardly use; guest/session.py has its handler. */
enum { WIRE_TRACE_SIGNAL = 62 };

struct wire_request {
    uint32_t op; /* enum wire_op */
    uint32_t id;
    int32_t pid;
    uint32_t tag; /* RLIMIT_MSGQUEUE of the processes of one session */
    uint32_t role;
    int32_t signal;
    uint32_t mode;
    uint32_t token;
    uint32_t tag_count;          /* WIRE_KILL_TAG: sessions that live or are being forked, */
    uint32_t tags[WIRE_TAGS];    /* and their tags; */
    uint32_t last_tag;           /* the one that was given last: those behind it are younger */
    char path[LIMIT_PATH_BYTES]; /* NUL-terminated; a packet may end behind the NUL */
};

struct wire_file {
    uint32_t mode; /* st_mode */
    uint32_t existed;
    uint64_t size_bytes;
};

struct wire_reply {
    uint32_t event; /* enum wire_event */
    uint32_t id;
    int32_t error;
    int32_t pid;
    int32_t status;
    uint32_t token;
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint64_t disk_most_bytes; /* of a room: the limit */
    uint64_t disk_files;      /* of a room; 0: it is the bytes that are too many */
    struct wire_file file;
};

/* The box's settings for pid 1, in a sealed memfd at WIRE_CONFIG_FD: this head, then the rights of the
 * Landlock rules (uint64_t), then the filter programs (struct sock_filter), then strings, each with its
 * NUL: the zygote's argv and environment, the paths of the data folders, those of the rules,
 * and those of struct init_view. */
#define WIRE_CONFIG_MAGIC 0x53504950U

struct wire_config {
    uint32_t magic;
    uint32_t argc;
    uint32_t envc;
    uint32_t datac;                 /* at most BOX_MOUNTS */
    uint32_t filter_notified_count; /* instructions of each program */
    uint32_t filter_uncounted_count;
    uint32_t filter_arguments_count;
    uint32_t filter_names_count;
    uint32_t rule_count;
    uint32_t strings_bytes;
    uint32_t pids_max;           /* RLIMIT_NPROC where no cgroup counts processes, else 0 */
    uint64_t watch_memory_bytes; /* watchdog limit where no cgroup counts memory, else 0 */
    uint64_t uncounted_bytes;    /* where one does: the limit of what it leaves out */
    uint64_t inet_bytes;         /* that it leaves out for each socket of TCP and UDP */
    uint64_t stage_bytes;        /* what /stage may hold; 0: there is none */
    uint64_t disk_bytes;         /* what the room may hold; 0: there is none */
    uint64_t disk_inodes;        /* likewise */
    uint64_t file_bytes;         /* RLIMIT_FSIZE */
    uint64_t data_bytes;         /* RLIMIT_DATA; 0: as it is */
    uint32_t guards;    /* pid 1's program is in no pid namespace, see init/guard.c; then: */
    uint32_t guest_uid; /* whom the guest becomes */
    uint32_t guest_gid;
    uint32_t tasks_max;         /* processes and threads, counted by itself; 0: the kernel counts */
    uint32_t landlock_optional; /* go on where the kernel has it and it cannot be had */
};

/* Tags: the zygote's, then one a session, counting down. RLIMIT_MSGQUEUE is free to carry them
 * because POSIX message queues are refused; a process can lower its tag, never raise it
 * (setrlimit(2)), and a tag that no session has is killed with any session. */
#define WIRE_TAG_ZYGOTE 65535U
#define WIRE_TAG_LEAST 1024U /* then they begin anew below the zygote's */
/* RLIMIT_LOCKS of a session's processes is this minus the tag. Both can only be lowered, so no other
 * session's pair can be reached; a pair that does not add up is killed with any session. */
#define WIRE_TAG_SUM 65536U
