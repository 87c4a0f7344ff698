#pragma once
#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/confine/landlock.h"
#include "sandbox/confine/rlimits.h"
#include "sandbox/init/family.h"
#include "sandbox/init/notify.h"
#include "sandbox/wire/wire.h"

enum { INIT_WATCHED = 512, INIT_WRITES = 64, INIT_RULES = 96, INIT_ROOM_FOLDERS = 4 };

struct watched {
    pid_t pid; /* 0: free */
    uint32_t tag;
    uint32_t role; /* enum wire_role */
};

/* Paths in the box; of what there is not: empty. */
struct init_view {
    const char *work;
    const char *tmp;
    const char *stage;
    const char *egress; /* the socket that the broker listens on, where it has a name */
    const char *output; /* without a root of its own: where whole outputs lie */
    const char *room[INIT_ROOM_FOLDERS]; /* what counts for the disk limit */
};

/* Everything that pid 1 knows. One instance, no heap. */
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
    char **data; /* paths of the data folders */
    struct init_view view;
    struct notify notify; /* a guardian's */
    pid_t root;           /* whose descendants the box is, see family.h: 0, or this process */
    bool blind;           /* no /proc: a lookout counts and kills in this program's place */
    bool outside;         /* it is the lookout */
    pid_t zygote;
    bool guest_runs; /* there is something to watch */
    struct watched watched[INIT_WATCHED];
    int signal_fd;
};

/* main.c */
/* Ends this program, and everybody else of the box with it. */
__attribute__((noreturn)) void init_end(int code);
void init_send(const struct wire_reply *reply, int fd); /* -1: none */
void init_send_fds(const struct wire_reply *reply, const int *fds, size_t count);
void init_answer(uint32_t id, int error);

/* settings.c: maps what the server has written and cuts it up. The memfd is ours alone and sealed. */
bool settings_load(struct init *init);

/* guard.c: of a box without a pid namespace, see there. WIRE_STEP_NONE, or the step that did not work. */
enum wire_step guard_begin(struct init *init);
/* How a child hands the listener of its first filter to the guardian: a pair is made before the fork,
 * none where nothing is notified; the child gives through the second end, which is closed, or returns
 * false with errno; the guardian takes, and waits for that. */
int listener_pair(const struct init *init, int ends[2]);
bool listener_give(const struct init *init, int to_fd);
void listener_take(struct init *init, int ends[2]);

/* confine.c: takes from this process all that the guest's must not have; control_fd becomes
 * CONFINED_CONTROL_FD, beside 0, 1 and 2 the only one that stays open but for CONFINED_RULESET_FD.
 * listener_fd: for listener_give(). nests: what runs makes a Landlock domain of its own, in each of its sessions,
 * with the ruleset that it finds there.
 * WIRE_STEP_NONE, or the step that did not work, with errno: the process must end then. */
enum { CONFINED_CONTROL_FD = 3, CONFINED_LISTENER_FD, CONFINED_RULESET_FD };
enum wire_step confine(const struct init *init, int control_fd, int listener_fd, bool nests);

/* confine.c: the guest's resource limits. Returns how many. */
unsigned limits_wanted(const struct wire_config *config, struct rlimit_wanted wanted[RLIMITS_MOST]);

/* zygote.c: forks the interpreter's process, confines it and executes it. Answers the request. */
void zygote_start(struct init *init, const struct wire_request *request);
/* The same for an errand's program, which is watched as a session is. */
void program_start(struct init *init, const struct wire_request *request);

/* proof.c: forks the inside witness. Answers the request. */
void proof_start(struct init *init, const struct wire_request *request);

/* processes.c */
void watch_add(struct init *init, const struct wire_request *request);
void watch_signal(struct init *init, const struct wire_request *request);
/* Answers when nobody is left, however long the kernel takes to end them: see watch_sweep(). */
void watch_kill_tag(struct init *init, const struct wire_request *request);
/* Goes on with the sweeps that are not done, to be called every INIT_SWEEP_MS. Returns whether there are any. */
bool watch_sweep(struct init *init);
enum { INIT_SWEEP_MS = 10 };
/* Reaps what has ended and reports those that are watched. */
void watch_reap(struct init *init);
/* The entry of a watched process, or NULL. */
struct watched *watch_find(struct init *init, pid_t pid);
/* Whether pid is the zygote or a checkpoint: they run no code, and do not pay for what it uses. */
bool watch_spares(struct init *init, pid_t pid);
/* The session that pid belongs to by its tag, or NULL. */
const struct watched *watch_owner(struct init *init, pid_t pid);
/* SIGKILL, unless the number is by now that of another process that is not of this box. */
void watch_kill(const struct init *init, pid_t pid);

/* memory.c: where no cgroup counts memory, adds up what all processes use, kills the largest beyond
 * the limit. Soft: it looks every INIT_WATCH_MS. */
void watch_memory(struct init *init);
/* The same for what a control group that counts memory leaves out: file locks, and in version 1 sockets. */
void watch_uncounted(struct init *init);
enum { INIT_WATCH_MS = 50, INIT_UNCOUNTED_MS = 1000 };

enum {
    INIT_STATUS_BYTES = 1 << 20
}; /* of /proc/PID/status: NGROUPS_MAX groups are 720 kB of it, before the sizes */

/* objects.c: what the kernel holds for each process. Looks anew, or goes on with the look that is under way, for a
 * turn of some 50 ms, or until it has found more than limit, in bytes. locks_only: a control group counts the rest.
 * Returns whether this look has come to its end. */
bool objects_look(struct init *init, bool locks_only, uint64_t limit);
/* Whether one is under way. */
bool objects_looking(void);
/* What the last look found for this process, or the one under way when it has come to it or found more. */
uint64_t objects_bytes(pid_t pid);
uint64_t objects_all_bytes(void);
/* Processor time of all that runs or has run here, in ticks: where it stands still, so does what objects_look() finds. */
uint64_t objects_ticks(const struct init *init);
/* This process is being killed. */
void objects_forget(pid_t pid);
/* Sockets of the sandbox's network, wherever they are: held, on their way in a message, or waiting to be
 * accepted. 0: it has no network of its own, or no /proc. */
uint64_t objects_sockets(const struct init *init);
/* Those of TCP and UDP, without TIME_WAIT. */
uint64_t objects_inet_sockets(const struct init *init);

/* proc.c: reads a file of /proc/PID. Returns its length; 0 when it cannot be read. */
size_t read_proc(pid_t pid, const char *name, char *text, size_t size);
/* A thread of pid whose files in /proc say what the process has: its first one, unless that has left before
 * the others, proc(5). */
pid_t proc_thread(pid_t pid);

/* trace.c: makes a watched session's interpreter write down where its thread is that is at work. 0,
 * -ESRCH: it would not understand, or -EAGAIN: it sleeps, so that it is not what needs memory. */
int watch_trace(struct init *init, pid_t pid);

/* files.c */
void files_open_read(const struct wire_request *request);
void files_open_write(const struct wire_request *request);
void files_commit(const struct wire_request *request);
void files_abort(const struct wire_request *request);
/* fd: the directory for whole outputs, which code cannot write to; -1: there is none. Taken */
void files_keep_outputs(int fd);
void files_make_output(const struct wire_request *request);
void files_remove_output(const struct wire_request *request);

/* disk.c: adds up what /stage holds, now and then, and ends the errand that has written more than it
 * may. What is open and has no name is not seen, but what is left of the host's disk is. */
void watch_disk(const struct init *init);
enum { INIT_DISK_MS = 100 };
/* The same for the folders of a room, also without names, where sessions write. */
void watch_room(struct init *init);
enum { INIT_GUARD_MS = 25 };
/* How much of what code has written is memory, and not disk. */
uint64_t watch_room_memory(const struct init *init);

/* lookout.c: pid as the box numbers it. */
pid_t init_number(const struct init *init, pid_t pid);

/* reaper.c, sweeper.c, lookout.c: other lives of this program, see there. */
int reaper_main(int argc, char **argv);
int sweeper_main(int argc, char **argv);
int lookout_main(int argc, char **argv);
