#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/protocol/init_protocol.h"

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
    pid_t root;   /* the sandbox is this process's descendants, see process_tree.h: 0 or a pid */
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
