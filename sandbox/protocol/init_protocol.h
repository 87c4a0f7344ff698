#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/keeper_protocol.h"
#include "sandbox/types.h"

/* Messages between the server and a sandbox's init, over a SOCK_SEQPACKET pair: one struct per
 * packet; only init sends descriptors. Init is our own program (sandbox/programs/init); the guest
 * can neither read its memory nor send on its socket. The server still checks what it receives.
 *
 * A socket belongs to the network namespace in which it was made, wherever it is sent,
 * network_namespaces(7). So init makes each socket that a guest holds, and gives the server the
 * other end.
 *
 * All pids are those of the sandbox's pid namespace. */

/* Descriptors that init starts with. */
enum {
    WIRE_INIT_FD = 3,
    WIRE_CONFIG_FD,
    WIRE_OUTPUT_FD, /* with a root of its own: the plan's output directory, writable */
    /* Where the workspace is an overlay (wire_config.cow), its layers, which have no name in the
     * sandbox; else closed. */
    WIRE_UPPER_FD,
    WIRE_LOWER_FD, /* read-only */
    WIRE_STORE_FD, /* the directory that holds the upper layer, with WIRE_COW_STORE; else closed */
    WIRE_OVERLAY_FD, /* of fspick(2), for box_refresh_workspace(); closed where there is none */
    WIRE_FILES_FD,   /* the host's /proc/sys/fs/file-nr; closed where there is none */
    /* The directory with those files of /proc that init writes (init/machine.c), writable; closed
     * where there is no root of its own. */
    WIRE_MACHINE_FD,
    WIRE_MEMORY_FD, /* memory.stat of the sandbox's control group; closed where there is none */
    WIRE_FD_COUNT,
};

/* Whether the workspace is an overlay, and where its upper layer lies. */
enum wire_cow { WIRE_COW_NONE, WIRE_COW_MEMORY, WIRE_COW_STORE };

enum wire_op {
    WIRE_START_ZYGOTE,  /* Response: pid, fd: the control socket, with SO_PASSCRED; status: 1:
                           calls that change files are notified */
    WIRE_START_PROGRAM, /* Response: pid, fds: socket with SO_PASSCRED (0, 3), pipe (1, 2) */
    WIRE_SELFTEST,  /* path: the canary's. Response: fd: a SOCK_SEQPACKET for one selftest_record */
    WIRE_PAIR,      /* Response: a WIRE_PAIR_MADE */
    WIRE_LISTEN,    /* Response: fd: a TCP socket that listens on EGRESS_PROXY_PORT of 127.0.0.1 */
    WIRE_WATCH,     /* pid, tag, role. Response: pid. Init then reports its exit */
    WIRE_SIGNAL,    /* pid, signal, tag: a process watched with that tag, or the zygote */
    WIRE_TRACE,     /* pid: WIRE_TRACE_SIGNAL to a busy thread of a session */
    WIRE_LOOK,      /* pid, watched. Response: pid, cpu_ms, idle */
    WIRE_COUNT,     /* Response: processes: of code, without the interpreters */
    WIRE_RANK,      /* tag: 1: memory is short: the kernel kills processes of the session that fills
                       it before others. Response: tag: that session's; 0: there is none. tag: 0: it
                       chooses by size again */
    WIRE_KILL_TAG,  /* tag: everything with that tag, watched or not, but checkpoints. cell: only
                       what that cell has started. Response: pid as in the request, processes,
                       path: lines with the commands of the first of them */
    WIRE_OPEN_READ, /* path. Response: fd, file */
    WIRE_RESOLVE,   /* path. Response: path: without ".", ".." and symlinks, see sandbox/box.h */
    WIRE_OPEN_WRITE,    /* path: such a one; write_mode. Response: fd, file, token */
    WIRE_COMMIT,        /* token: the written file is flushed and takes its name */
    WIRE_ABORT,         /* token */
    WIRE_MAKE_OUTPUT,   /* path: a name. Response: fd of a new overflow file */
    WIRE_REMOVE_OUTPUT, /* path: the overflow file's name */
    WIRE_START_KEEPER, /* again. Response: pid, fds: a SOCK_SEQPACKET, on which the keeper takes the
                          requests below; another one, for the sessions (wire_touch); and maybe an
                          inotify instance, see wire_kept.watched, from which only the keeper
                          reads. With an overlay instead WIRE_OVERLAY_FD */
    WIRE_OP_COUNT,
};

enum wire_event {
    WIRE_RESPONSE, /* to the request with this id; error is an errno value or 0 */
    WIRE_EXITED,   /* pid, status as in waitpid(2) */
    WIRE_MEMORY,   /* the watchdog killed pid: all processes together used memory_bytes; blame */
    WIRE_DISK, /* too much in staging or scratch directory; init kills pid, or, if 0, all others */
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

enum wire_role {
    WIRE_ROLE_SESSION,
    WIRE_ROLE_CHECKPOINT,
    WIRE_ROLE_ZYGOTE, /* these two only to a process monitor */
    WIRE_ROLE_KEEPER,
};

/* Who has filled the memory for which a process was killed. */
enum wire_blame { WIRE_BLAME_ITS_OWN, WIRE_BLAME_ANOTHER, WIRE_BLAME_UNKNOWN };

enum wire_write_mode { WIRE_WRITE_OVERWRITE, WIRE_WRITE_CREATE, WIRE_WRITE_APPEND };

enum { WIRE_TAGS = 64, WIRE_FDS = 3, WIRE_NAMES_BYTES = 400 };

/* SIGURG, which programs hardly use; its handler is in guest/opening.py. Another program that has
 * replaced the interpreter ignores it by default. */
enum { WIRE_TRACE_SIGNAL = 23 };

struct wire_request {
    uint32_t op; /* enum wire_op or keep_op; it says which member of the union is set */
    uint32_t id;
    int64_t fresh_ns; /* to the keeper: by the clock of keep_begin.since_ns. The overlay shows what
                         the user's directory had then, or has now */
    union {
        struct {
            int32_t pid;
            uint32_t tag; /* RLIMIT_MSGQUEUE of the processes of one session */
            uint32_t role;
            int32_t signal;
            uint32_t cell;            /* a cell's number; 0: all */
            uint32_t tag_count;       /* sessions that live or are being forked, */
            uint32_t tags[WIRE_TAGS]; /* and their tags; */
            uint32_t last_tag;        /* the last assigned one: younger tags count down from it */
        };
        struct {
            uint32_t write_mode;       /* enum wire_write_mode */
            uint32_t keeps_attributes; /* the new file gets those of the one that it replaces */
        };
        struct {
            uint32_t token;              /* of the file that is being written */
            struct apply_facts expected; /* of what it may replace; mode 0: anything */
        };
        uint32_t again; /* another keeper has died */
        struct keep_begin begin;
        struct keep_end end;
        struct keep_switch switching;
        struct keep_states states;
        uint32_t list; /* enum keep_list */
    };
    char path[LIMIT_PATH_BYTES]; /* NUL-terminated; a packet may end after the NUL */
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
    uint32_t processes; /* WIRE_COUNT; WIRE_KILL_TAG: how many lived, without the interpreter */
    uint32_t idle;      /* WIRE_LOOK: it waits for something, and not for a page, */
    uint64_t cpu_ms;    /* and has used so much processor time */
    uint32_t tag;       /* WIRE_RANK */
    uint32_t blame;     /* WIRE_MEMORY: enum wire_blame */
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint64_t disk_most_bytes; /* of the scratch directory: the limit */
    uint64_t disk_files;      /* of the scratch directory; 0: the bytes exceed the limit */
    struct wire_file file;
    struct wire_kept kept;
    char path[LIMIT_PATH_BYTES]; /* as that of a request */
};

/* What of a reply is sent. */
static inline size_t wire_reply_size(const struct wire_reply *reply)
{
    return offsetof(struct wire_reply, path) + strlen(reply->path) + 1;
}

/* Init's settings, in a sealed memfd at WIRE_CONFIG_FD: this head, then the rights of the Landlock
 * rules (uint64_t), then the filter programs (struct sock_filter), then strings, each with its NUL:
 * the zygote's argv and environment, the paths of the data directories, those of the rules, and
 * those of struct init_paths. */
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
    uint32_t pids_max;           /* RLIMIT_NPROC where no cgroup counts processes, else 0 */
    uint64_t watch_memory_bytes; /* watchdog limit where no cgroup counts memory, else 0 */
    uint64_t uncounted_bytes;    /* where a cgroup counts memory: the limit of what it omits */
    uint64_t inet_bytes;         /* what it omits for each TCP or UDP socket */
    uint64_t epoll_item_bytes;   /* what each counts as */
    uint64_t staging_bytes;      /* what /stage may hold; 0: there is none */
    uint64_t disk_bytes;         /* limit of the scratch directory; 0: there is none */
    uint64_t disk_inodes;        /* the same for its inodes */
    uint64_t file_bytes;         /* RLIMIT_FSIZE */
    uint64_t data_bytes;         /* RLIMIT_DATA; 0: unchanged */
    uint32_t guards;             /* init is a supervisor, see supervisor.c; then: */
    uint32_t guest_uid;          /* the guest's ids */
    uint32_t guest_gid;
    uint32_t tasks_max;         /* processes and threads, counted by init; 0: the kernel counts */
    uint32_t landlock_optional; /* continue without Landlock where the kernel has it and it fails */
    uint32_t cow;               /* enum wire_cow */
    uint32_t asks_of_writes;    /* calls that change files are notified, notify_writes.c */
    uint32_t own_workspace;     /* it is the sandbox's own: nobody else writes to it */
    uint64_t undo_files_bytes;  /* what copies of files may take */
    struct box_processors processors; /* which the sandbox may use at a time */
};

/* Tags: first the zygote's, then one per session, counting down. RLIMIT_MSGQUEUE is free to carry
 * them because POSIX message queues are refused. A process can lower its tag, never raise it
 * (setrlimit(2)), and processes with a tag that no session has are killed with any session. */
#define WIRE_TAG_ZYGOTE 65535U
#define WIRE_TAG_LEAST 1024U /* after this they start again below the zygote's */
/* RLIMIT_LOCKS, which has had no effect since Linux 2.4, of a session's processes: the hard limit
 * is this minus WIRE_BRANCHES times the tag, and for a branch of the session also minus the
 * branch's number, from 1 on. Both can only be lowered, so a process cannot reach another session's
 * pair; processes whose pair does not add up are killed with any session. The soft limit is the
 * number of the cell that has started the process, or one of its ancestors; 0: no cell was running.
 * Every number of a cell is below the hard limit. */
#define WIRE_TAG_SUM (1ULL << 40)
#define WIRE_BRANCHES 64U
/* In messages a branch's number stands in the bits above its session's tag. */
#define WIRE_BRANCH_SHIFT 16
#define WIRE_TAG_OF_SESSION(tag) ((tag) & ((1U << WIRE_BRANCH_SHIFT) - 1))
