#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "sandbox/protocol/init_protocol.h"

/* The processes of a sandbox, in the caller's /proc. root 0: the caller is pid 1 of a pid
 * namespace, and all other processes in it belong. Otherwise: the descendants of the process root,
 * which is a subreaper, so that none can leave by losing its parent (PR_SET_CHILD_SUBREAPER,
 * prctl(2)). */

/* Returns a static list that ends with 0 and is valid until the next call. While the tree changes,
 * processes may be missing, but the list is not empty then. Contains neither root itself nor
 * descendants that have exited and are not reaped. */
const pid_t *process_tree_list(pid_t root);

/* The same, cheap on a machine with many processes: reads the children from the parents' tasks. A
 * process whose sibling exits meanwhile may be missing, proc(5), and code can provoke that: use
 * process_tree_list() periodically. May contain processes that have exited. */
const pid_t *process_tree_glance(pid_t root);

/* Whether pid has exited, reaped or not. */
bool process_tree_ended(pid_t pid);

/* Whether pid is one of them, by its parents up to root. */
bool process_tree_has(pid_t root, pid_t pid);

/* Sends a signal to all of them, to descendants one by one: processes that are forked or orphaned
 * meanwhile may be missed. Returns their number; for a namespace only whether there were any. */
unsigned process_tree_signal(pid_t root, int number);

/* For root itself, which reaps: kills all its descendants and returns when it has no child left,
 * which for a subreaper means that none exists. Forks must not succeed meanwhile: notifications
 * must stay unserved. Gives up after some seconds when the kernel does not release a process.
 * Returns whether all are gone. */
bool process_tree_kill(pid_t root);

/* Of /proc/PID/status: NGROUPS_MAX groups take 720 kB of it, before the sizes. */
enum { PROC_STATUS_BYTES = 1 << 20 };

/* Reads a file of /proc/PID. Returns its length; 0 when it cannot be read. */
size_t read_proc(pid_t pid, const char *name, char *text, size_t size);
/* Opens a directory of /proc/PID, or NULL with errno. */
DIR *open_proc(pid_t pid, const char *name);
/* A thread of pid whose files in /proc describe the process: its first one, unless that has exited
 * before the others, proc(5). */
pid_t proc_thread(pid_t pid);
/* A file of the process in the form of /proc/PID/stat: what follows the name, which may contain
 * anything, in "7 (name) R 1 ...", or NULL; and a number in that. */
enum { PROC_STAT_BYTES = 512 };
const char *proc_stat(pid_t pid, const char *name, char text[PROC_STAT_BYTES]);
uint64_t proc_stat_number(const char *stat, unsigned field);
/* Its number in the innermost of its pid namespaces; 0: the process is gone. */
pid_t proc_inner_number(pid_t pid);

/* The processes that the server knows by number, and what it may do to them. Init has one of these,
 * and so has the process monitor, which does the same for an init that has no /proc. */

enum { PROCESSES_WATCHED = 512, PROCESSES_SWEEP_MS = 10 };

struct watched {
    pid_t pid; /* 0: free */
    uint32_t tag;
    uint32_t role;  /* enum wire_role */
    uint64_t order; /* later ones are greater */
};

struct processes {
    pid_t root;   /* the sandbox is this process's descendants, see above: 0 or a pid */
    bool guards;  /* root is the caller, a supervisor */
    bool outside; /* the caller is the process monitor */
    pid_t zygote;
    pid_t keeper;              /* 0: there is none */
    uint64_t epoll_item_bytes; /* what each counts as */
    uint32_t fills;            /* tag of the session that fills the memory, see WIRE_RANK; or 0 */
    int files_fd;              /* /proc/sys/fs/file-nr, proc(5); -1: none */
    void (*on_other)(pid_t pid, int status); /* one that is not watched has exited; or NULL */
    struct watched watched[PROCESSES_WATCHED];
};

/* Serves a request that is about processes, and responds; false: this one is not. */
bool watch_serve(struct processes *processes, const struct wire_request *request);
/* Continues unfinished sweeps. Must be called every PROCESSES_SWEEP_MS. Returns whether any
 * remain. */
bool watch_sweep(struct processes *processes);
/* Reaps processes and reports those that are watched. */
void watch_reap(struct processes *processes);
/* The entry of a watched process, or NULL. */
const struct watched *watch_find(const struct processes *processes, pid_t pid);
/* Whether pid is the zygote or a checkpoint: they run no code, so they are not killed for what it
 * uses. */
bool watch_spares(const struct processes *processes, pid_t pid);
/* The session that pid's tag names, or NULL. */
const struct watched *watch_owner(const struct processes *processes, pid_t pid);
/* Whether there is more than one session. */
bool watch_shared(const struct processes *processes);
/* Tells the kernel whether this process of a session or branch with the tag is one of the first to
 * be killed when memory runs out, or makes way after them, as a checkpoint does. */
void watch_offer(const struct processes *processes, pid_t pid, uint32_t tag, bool is_live);
/* Sends SIGKILL, unless the number has been reused by a process outside this sandbox. */
void watch_kill(const struct processes *processes, pid_t pid);

/* Makes the interpreter of a watched session write a trace of its busy thread. 0, -ESRCH:
 * it has no handler, or -EAGAIN: it sleeps, so it is not what needs memory. */
int watch_trace(const struct processes *processes, pid_t pid);

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

/* The tag of a process's session or branch, as messages have it; 0: its limits do not add up, or
 * cannot be read. */
uint32_t tags_id_of(pid_t pid);

/* Whether two processes or threads belong to the same session or branch, or to no session in a
 * sandbox that has none. A process can lower its limits and never raise them, so it cannot pose as
 * one of another session: setrlimit(2). */
bool tags_same(pid_t one, pid_t other);

/* What init and the process monitor send to the server. Where that has exited, the socket is
 * closed: the program's next read finds its end. */

void reply_send(const struct wire_reply *reply, int fd); /* fd -1: none */
void reply_send_fds(const struct wire_reply *reply, const int *fds, size_t count);
/* Drops the message when the server does not read: the checks must go on. */
void reply_note(const struct wire_reply *reply);
/* The response to a request; error: an errno value or 0. */
void reply_result(uint32_t id, int error);
