#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/fail.h"

/* A program of ours as a sealed memfd, ready for execveat(2). Returns the descriptor or -errno. */
int program_make(const char *name, const unsigned char *bytes, size_t size, struct fail *ret_fail);

/* A packet that the program finds in its socket, so that it need not wait. */
struct program_request {
    const void *bytes;
    size_t size;
    const int *fds;
    size_t fd_count;
};

/* Starts init's program in another role, argv[0], in a process session of its own. Its only
 * descriptor is one end of a new SOCK_SEQPACKET pair, as 3; *ret_fd: the other end. request: NULL:
 * none. Returns the pid, or -errno if it could not be executed; of the process's first such program
 * that is not known yet, and its end of the socket closes then. */
pid_t program_spawn(const char *const argv[], const struct program_request *request, int *ret_fd);

/* Waits up to ms milliseconds for a child of this process. Returns whether it has exited; it is
 * then still to be reaped. */
bool program_has_ended(pid_t pid, int ms);
/* Kills a child of this process, whatever it is doing, and reaps it. Does nothing if *pid is not
 * positive; sets it to 0. */
void program_kill(pid_t *pid);

/* The static program of programs/init. Returns a descriptor that this module owns, or -errno. It
 * can be executed after program_wait. */
int program_fd(struct fail *ret_fail);
/* Returns 0 or -errno; the program is then made anew when it is next needed. */
int program_wait(struct fail *ret_fail);
