#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/programs/init/supervisor/notify.h"

/* A notification, and what its handlers share. */

struct notify_call {
    struct notify *notify;
    int listener_fd;
    uint64_t id;
    pid_t tid; /* the calling thread */
    int number;
    uint64_t arguments[6];
};

/* What a handler returns: the call's result, -errno, or one of these. */
enum {
    NOTIFY_GO_ON = 1 << 30, /* the kernel carries out the call */
    NOTIFY_LATER,           /* the response will be sent later */
};

/* --- notify.c --- */

/* Whether the notification is still valid. False: the caller is gone, its number may be reused. */
bool notify_is_asked(const struct notify_call *call);
void notify_respond(const struct notify_call *call, long result);

/* --- the caller --- */

/* Opens a file of /proc/TID. Returns the descriptor or -errno; -EPERM: the kernel denies access. */
int caller_look(const struct notify_call *call, const char *name, int flags);
/* Reads all of size. 0, -EFAULT or another -errno. */
int caller_read(const struct notify_call *call, uint64_t address, void *out, size_t size);
int caller_read_path(const struct notify_call *call, uint64_t address, char path[PATH_MAX]);
/* Opens the object of the caller's descriptor, O_PATH. -EBADF: it has none of this number. */
int caller_descriptor(const struct notify_call *call, int number);
/* The number in "/proc/self/fd/7", which C libraries use for a file that they hold with O_PATH, or
 * "/dev/fd/7". For init the name would mean one of its own descriptors. -1: another path. */
int caller_own_descriptor(const struct notify_call *call, const char *path);
/* Opens what path names for the caller, O_PATH. dir_number as in openat(2). nofollow: opens a
 * symlink itself. */
int caller_open(const struct notify_call *call, int dir_number, const char *path, bool nofollow);
/* Whether it may have another descriptor, or that is not known. Where numbers above its limit are
 * taken too, it may all the same, and this says no. */
bool caller_has_space(const struct notify_call *call);
/* The process of a thread; 0: there is none. */
pid_t caller_process(pid_t tid);

/* Whether the object is a place or in one: by its current position, whatever it was when opened. */
bool notify_is_in_place(const struct notify *notify, int object_fd);
/* A name for an object that is held with O_PATH: reaches this object and nothing in its place. */
enum { HELD_NAME = 32 };
const char *held_name(int object_fd, char name[HELD_NAME]);

/* --- notify_writes.c --- */

/* Whether a call with this number changes files. */
bool writes_has(int number);
/* Tells the keeper of a call that changes files in the workspace. Returns whether the call has to
 * wait for its answer. */
bool writes_tell(const struct notify_call *call);
/* Takes the keeper's answers. */
void writes_answered(struct notify *notify);
/* Forgets what waits of this listener. */
void writes_forget(struct notify *notify, int listener_fd);
/* Carries out a call, or lets it go on, and responds. */
void notify_carry_out(const struct notify_call *call);

/* --- notify_acts.c, notify_tasks.c: the handlers --- */

long handle_chmod(const struct notify_call *call);
long handle_fchmod(const struct notify_call *call);
long handle_fchmodat(const struct notify_call *call);
long handle_utime(const struct notify_call *call);
long handle_utimes(const struct notify_call *call);
long handle_futimesat(const struct notify_call *call);
long handle_utimensat(const struct notify_call *call);
long handle_truncate(const struct notify_call *call);

long handle_socket(const struct notify_call *call);
long handle_bind(const struct notify_call *call);
long handle_connect(const struct notify_call *call);
/* Retries the waiting connections. */
void sockets_retry(struct notify *notify);
/* Forgets the waiting connections of this listener. */
void sockets_forget(struct notify *notify, int listener_fd);

long handle_clone(const struct notify_call *call);
long handle_kill(const struct notify_call *call);
long handle_tkill(const struct notify_call *call);
long handle_tgkill(const struct notify_call *call);
long handle_sigqueue(const struct notify_call *call);
long handle_tgsigqueue(const struct notify_call *call);
long handle_pidfd_signal(const struct notify_call *call);
