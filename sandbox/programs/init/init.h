#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/policy/landlock.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/supervisor/notify.h"
#include "sandbox/protocol/init_protocol.h"

enum { INIT_WRITES = 64, INIT_RULES = 160, INIT_SCRATCH_DIRECTORIES = 4 };

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
    struct processes processes;
    bool blind;       /* no /proc: a process monitor counts and kills instead */
    int overlay_fd;   /* WIRE_OVERLAY_FD, or -1 */
    bool guest_runs;  /* there is something to watch */
    bool sees_writes; /* calls that change files are notified, and the keeper too */
    int signal_fd;
};

/* supervisor.c: for a sandbox without a pid namespace. WIRE_STEP_NONE, or the step that failed. */
enum wire_step supervisor_begin(struct init *init);
/* How a child hands the listener of its first filter to the supervisor. listener_pair() makes a
 * pair before the fork, or none where no call is notified. listener_give() sends the listener
 * through the second end and closes that, or returns false with errno. listener_take() blocks until
 * it arrives, and returns whether it is served. */
int listener_pair(const struct init *init, int ends[2]);
bool listener_take(struct init *init, int ends[2]);

/* spawn.c: takes from this process all that the guest must not have. control_fd becomes
 * CONFINED_CONTROL_FD; besides 0, 1 and 2 only that and CONFINED_RULESET_FD stay open. listener_fd:
 * for listener_give(). nests: the program makes a Landlock domain in each of its sessions, with the
 * ruleset of CONFINED_RULESET_FD. WIRE_STEP_NONE, or the failed step, with errno: the process must
 * then exit. */
enum { CONFINED_CONTROL_FD = 3, CONFINED_LISTENER_FD, CONFINED_RULESET_FD };
enum wire_step confine(const struct init *init, int control_fd, int listener_fd, bool nests);

/* spawn.c: the guest's resource limits. Returns their number. */
unsigned limits_wanted(const struct wire_config *config, struct rlimit_wanted wanted[RLIMITS_MOST]);

/* spawn.c: forks, confines and executes the interpreter's process. Responds to the request. */
void zygote_start(struct init *init, const struct wire_request *request);
/* The same for an installer's program, which is watched like a session. */
void program_start(struct init *init, const struct wire_request *request);

/* The same for the keeper, which is not executed (programs/keeper). */
void keeper_start(struct init *init, const struct wire_request *request);

/* selftest_attempts.c: forks the process that runs the self-test. Responds to the request. */
void selftest_spawn(struct init *init, const struct wire_request *request);

/* machine.c: the files of WIRE_MACHINE_FD. Call the first before any file is opened. The second
 * writes them when that is due, and returns after how many milliseconds to call it again; -1: there
 * are none. */
enum { MACHINE_BUSY_MS = 200, MACHINE_CALM_MS = 1000 };
void machine_open(void);
int machine_refresh(const struct init *init);

/* files.c: serves a request that is about files, and responds; false: this one is not. */
bool files_serve(const struct init *init, const struct wire_request *request);
/* A process that is not watched has exited: responds where it was one of a commit. */
void files_reaped(pid_t pid, int status);
/* fd: the directory for overflow files, which code cannot write to; -1: there is none. Taken */
void files_keep_outputs(int fd);
/* That directory. */
int files_output_fd(void);

/* disk.c: adds up periodically what /stage holds, and kills an installer that has written too much.
 * Cannot see open files without a name, but checks how much of the host's disk is free. */
void watch_disk(const struct init *init);
enum { INIT_DISK_MS = 100 };
/* The same for the scratch directory, where sessions write; includes files without names. */
void watch_scratch(struct init *init);
enum { INIT_SUPERVISOR_MS = 25 };
/* How much of what code has written is in memory instead of on disk. */
uint64_t watch_scratch_memory(const struct init *init);
