#pragma once
#include <dirent.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "sandbox/policy/landlock.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/programs/common/process_tree.h"
#include "sandbox/programs/common/usage.h"
#include "sandbox/programs/init/supervisor/notify.h"
#include "sandbox/protocol/init_protocol.h"

enum { INIT_WATCHED = 512, INIT_WRITES = 64, INIT_RULES = 96, INIT_SCRATCH_DIRECTORIES = 4 };

struct watched {
    pid_t pid; /* 0: free */
    uint32_t tag;
    uint32_t role;  /* enum wire_role */
    uint64_t order; /* later ones are greater */
};

/* Paths in the sandbox; empty for what does not exist. */
struct init_paths {
    const char *work;
    const char *tmp;
    const char *staging;
    const char *egress; /* the egress proxy's listening socket, where it has a path */
    const char *output; /* without a root of its own: the directory for overflow files */
    const char *scratch[INIT_SCRATCH_DIRECTORIES]; /* directories that count for the disk limit */
};

/* The whole state of init. One instance, no heap. */
struct init {
    const struct wire_config *config;
    struct sock_fprog filter_notified;  /* len 0: none */
    struct sock_fprog filter_uncounted; /* len 0: none */
    struct sock_fprog filter_arguments;
    struct sock_fprog filter_names;
    struct landlock_rule rules[INIT_RULES]; /* the guest's */
    unsigned rule_count;
    char **argv;
    char **envp;
    char **data; /* paths of the data directories */
    struct init_paths paths;
    struct notify notify; /* of a supervisor */
    pid_t root;   /* the sandbox is this process's descendants, see process_tree.h: 0 or own pid */
    bool blind;   /* no /proc: a process monitor counts and kills instead */
    bool outside; /* this process is the process monitor */
    pid_t zygote;
    pid_t keeper;    /* 0: there is none */
    int overlay_fd;  /* WIRE_OVERLAY_FD, or -1 */
    bool guest_runs; /* there is something to watch */
    struct watched watched[INIT_WATCHED];
    int signal_fd;
};

/* main.c */
void init_send(const struct wire_reply *reply, int fd); /* fd -1: none */
/* Drops the message when the server does not read: the checks must go on. */
void init_send_note(const struct wire_reply *reply);
void init_send_fds(const struct wire_reply *reply, const int *fds, size_t count);
void init_respond(uint32_t id, int error);

/* settings.c: maps and parses what the server has written. The memfd is sealed, and only init has
 * it. */
bool settings_load(struct init *init);

/* supervisor.c: for a sandbox without a pid namespace. WIRE_STEP_NONE, or the step that failed. */
enum wire_step supervisor_begin(struct init *init);
/* How a child hands the listener of its first filter to the supervisor. listener_pair() makes a
 * pair before the fork, or none where no call is notified. listener_give() sends the listener
 * through the second end and closes that, or returns false with errno. listener_take() blocks until
 * it arrives. */
int listener_pair(const struct init *init, int ends[2]);
bool listener_give(const struct init *init, int to_fd);
void listener_take(struct init *init, int ends[2]);

/* restrict_guest.c: takes from this process all that the guest must not have. control_fd becomes
 * CONFINED_CONTROL_FD; besides 0, 1 and 2 only that and CONFINED_RULESET_FD stay open. listener_fd:
 * for listener_give(). nests: the program makes a Landlock domain in each of its sessions, with the
 * ruleset of CONFINED_RULESET_FD. WIRE_STEP_NONE, or the failed step, with errno: the process must
 * then exit. */
enum { CONFINED_CONTROL_FD = 3, CONFINED_LISTENER_FD, CONFINED_RULESET_FD };
enum wire_step confine(const struct init *init, int control_fd, int listener_fd, bool nests);

/* restrict_guest.c: the guest's resource limits. Returns their number. */
unsigned limits_wanted(const struct wire_config *config, struct rlimit_wanted wanted[RLIMITS_MOST]);

/* spawn.c: forks, confines and executes the interpreter's process. Responds to the request. */
void zygote_start(struct init *init, const struct wire_request *request);
/* The same for an installer's program, which is watched like a session. */
void program_start(struct init *init, const struct wire_request *request);

/* The same for the keeper, which is not executed (programs/keeper). */
void keeper_start(struct init *init, const struct wire_request *request);

/* selftest_attempts.c: forks the process that runs the self-test. Responds to the request. */
void selftest_spawn(struct init *init, const struct wire_request *request);

/* processes.c */
void watch_add(struct init *init, const struct wire_request *request);
void watch_signal(struct init *init, const struct wire_request *request);
/* Responds with how many processes run that code has started. */
void watch_count(struct init *init, const struct wire_request *request);
/* Responds when no such process is left, however long the kernel takes: see watch_sweep(). */
void watch_kill_tag(struct init *init, const struct wire_request *request);
/* Continues unfinished sweeps. Must be called every INIT_SWEEP_MS. Returns whether any remain. */
bool watch_sweep(struct init *init);
enum { INIT_SWEEP_MS = 10 };
/* Reaps processes and reports those that are watched. */
void watch_reap(struct init *init);
/* The entry of a watched process, or NULL. */
struct watched *watch_find(struct init *init, pid_t pid);
/* Whether pid is the zygote or a checkpoint: they run no code, so they are not killed for what it
 * uses. */
bool watch_spares(struct init *init, pid_t pid);
/* The session that pid's tag names, or NULL. */
const struct watched *watch_owner(struct init *init, pid_t pid);
/* Sends SIGKILL, unless the number has been reused by a process outside this sandbox. */
void watch_kill(const struct init *init, pid_t pid);

/* memory.c: where no cgroup counts memory, adds up what all processes use, and kills the largest
 * above the limit. Soft: it scans every INIT_WATCH_MS, or INIT_CLOSE_MS after it has returned
 * true, because more than half of the limit is used, and it grows. */
bool watch_memory(struct init *init);
/* The same for what a control group that counts memory omits: file locks, and in version 1 also
 * sockets. */
void watch_uncounted(struct init *init);
enum { INIT_WATCH_MS = 50, INIT_CLOSE_MS = 10, INIT_UNCOUNTED_MS = 1000 };

/* Of /proc/PID/status: NGROUPS_MAX groups take 720 kB of it, before the sizes. */
enum { INIT_STATUS_BYTES = 1 << 20 };

/* objects.c: what the kernel holds for each process. Starts or continues a scan, for a turn of some
 * 50 ms, or until it has found more than limit, in bytes. locks_only: a control group counts the
 * rest. Returns whether the scan is complete. */
bool objects_look(struct init *init, bool locks_only, uint64_t limit);
/* Whether a scan is in progress. */
bool objects_looking(void);
/* What the last scan found for this process, or the current one if it has passed the process or
 * found more. */
uint64_t objects_bytes(pid_t pid);
uint64_t objects_all_bytes(void);
/* Processor time of all processes that run or have run here, in ticks. While it does not change,
 * neither does what objects_look() finds. */
uint64_t objects_ticks(const struct init *init);
/* Changes with each page fault of a process, and with each process that comes or goes: while it
 * does not, no process has got a page. */
uint64_t objects_faults(const struct init *init);
/* Call it when this process is being killed. */
void objects_forget(pid_t pid);
/* Number of sockets in the sandbox's network: held, in transit in a message, or not yet accepted.
 * 0: it has no network of its own, or no /proc. */
uint64_t objects_sockets(const struct init *init);
/* Number of TCP and UDP sockets, without TIME_WAIT. */
uint64_t objects_inet_sockets(const struct init *init);

/* tree.c: removes name in parent_fd with all that is in it, however deep, whatever its modes, and
 * while others may still be writing to it. Follows no path and no symlink. Returns whether it is
 * gone. */
bool tree_remove(int parent_fd, const char *name);

/* walk.c: openat(2) with O_CLOEXEC and O_NOCTTY that passes through no magic link of /proc: -ELOOP,
 * as openat2(2) with RESOLVE_NO_MAGICLINKS. Follows plain symlinks, unless flags has O_NOFOLLOW.
 * Returns the descriptor or -errno. */
int walk_open(int dir_fd, const char *path, int flags, mode_t mode);

/* proc.c: reads a file of /proc/PID. Returns its length; 0 when it cannot be read. */
size_t read_proc(pid_t pid, const char *name, char *text, size_t size);
/* Opens a directory of /proc/PID, or NULL with errno. */
DIR *open_proc(pid_t pid, const char *name);
/* A thread of pid whose files in /proc describe the process: its first one, unless that has exited
 * before the others, proc(5). */
pid_t proc_thread(pid_t pid);

/* trace.c: makes the interpreter of a watched session write a trace of its busy thread. 0, -ESRCH:
 * it has no handler, or -EAGAIN: it sleeps, so it is not what needs memory. */
int watch_trace(struct init *init, pid_t pid);

/* files.c */
void files_open_read(const struct wire_request *request);
void files_open_write(const struct wire_request *request);
void files_commit(const struct wire_request *request);
void files_abort(const struct wire_request *request);
/* fd: the directory for overflow files, which code cannot write to; -1: there is none. Taken */
void files_keep_outputs(int fd);
/* That directory. */
int files_output_fd(void);
void files_make_output(const struct wire_request *request);
void files_remove_output(const struct wire_request *request);

/* disk.c: adds up periodically what /stage holds, and kills an installer that has written too much.
 * Cannot see open files without a name, but checks how much of the host's disk is free. */
void watch_disk(const struct init *init);
enum { INIT_DISK_MS = 100 };
/* The same for the scratch directory, where sessions write; includes files without names. */
void watch_scratch(struct init *init);
enum { INIT_SUPERVISOR_MS = 25 };
/* How much of what code has written is in memory instead of on disk. */
uint64_t watch_scratch_memory(const struct init *init);

/* --- tags.c --- */

/* What a process's resource limits reveal of the session that it belongs to, see
 * protocol/init_protocol.h. */
struct tags {
    rlim_t soft;
    rlim_t hard;
    rlim_t counterpart;
    rlim_t cell; /* that started it; 0: none */
};

/* pid: a process or a thread. 0 or -errno; -EPERM: the kernel does not let us look */
int tags_of(pid_t pid, struct tags *ret_tags);

/* The tag of the session or branch, as messages have it; 0: the limits do not add up. */
uint32_t tags_id(const struct tags *tags);

/* Whether two processes or threads belong to the same session or branch, or to no session in a
 * sandbox that has none. A process can lower its limits and never raise them, so it cannot pose as
 * one of another session: setrlimit(2). */
bool tags_same(pid_t one, pid_t other);

/* monitor.c: pid in the sandbox's numbering. */
pid_t init_number(const struct init *init, pid_t pid);

/* apply.c, cleanup.c, monitor.c: other roles of this program, see there. */
int apply_main(void);
int cleanup_main(void);
int monitor_main(int argc, char **argv);
