#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/init/notify.h"

/* A question, and what its answers have in common. */

struct notify_call {
    struct notify *notify;
    int listener_fd;
    uint64_t id;
    pid_t tid; /* who asks: a thread */
    int number;
    uint64_t arguments[6];
};

/* What a question is answered with: a value of the call, -errno, or one of these. */
enum {
    NOTIFY_GO_ON = 1 << 30, /* the kernel carries it out */
    NOTIFY_ANSWERED,        /* it is done, or will be */
};

/* --- notify.c --- */

/* Whether the question is still there. False: whoever asked is gone, and his number may be another's. */
bool notify_is_asked(const struct notify_call *call);
void notify_answer(const struct notify_call *call, long result);

/* --- notify_caller.c: looks at the one who asks --- */

/* Opens a file of /proc/TID. The descriptor, or -errno: -EPERM where the kernel does not let us look. */
int caller_look(const struct notify_call *call, const char *name, int flags);
/* All of size, or -EFAULT and others. */
int caller_read(const struct notify_call *call, uint64_t address, void *out, size_t size);
int caller_read_path(const struct notify_call *call, uint64_t address, char path[PATH_MAX]);
/* The object of the caller's descriptor, O_PATH. -EBADF: it has none of this number. */
int caller_descriptor(const struct notify_call *call, int number);
/* What path names for the caller, O_PATH; dir_number as in openat(2), nofollow: a link itself. */
int caller_open(const struct notify_call *call, int dir_number, const char *path, bool nofollow);
/* The process of a thread; 0: there is none. */
pid_t caller_process(pid_t tid);

/* Whether the object lies in one of the places, or is one. Wherever it was when it was opened: by where it is. */
bool notify_is_in_place(const struct notify *notify, int object_fd);
/* The name by which an object that is held with O_PATH can be acted upon, and nothing else in its place. */
enum { HELD_NAME = 32 };
const char *held_name(int object_fd, char name[HELD_NAME]);

/* --- notify_files.c, notify_sockets.c, notify_tasks.c: each an answer --- */

long answer_chmod(const struct notify_call *call);
long answer_fchmod(const struct notify_call *call);
long answer_fchmodat(const struct notify_call *call);
long answer_utime(const struct notify_call *call);
long answer_utimes(const struct notify_call *call);
long answer_futimesat(const struct notify_call *call);
long answer_utimensat(const struct notify_call *call);
long answer_truncate(const struct notify_call *call);

long answer_socket(const struct notify_call *call);
long answer_bind(const struct notify_call *call);
long answer_connect(const struct notify_call *call);
/* Tries again to connect those that wait. */
void sockets_retry(struct notify *notify);
/* Forgets those of this listener. */
void sockets_forget(struct notify *notify, int listener_fd);

long answer_clone(const struct notify_call *call);
long answer_kill(const struct notify_call *call);
long answer_tkill(const struct notify_call *call);
long answer_tgkill(const struct notify_call *call);
long answer_sigqueue(const struct notify_call *call);
long answer_tgsigqueue(const struct notify_call *call);
long answer_pidfd_signal(const struct notify_call *call);
