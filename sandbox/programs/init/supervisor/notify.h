#pragma once
#include <linux/filter.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/policy/landlock.h"

/* Where the guest has no namespaces of its own, a filter can neither allow nor refuse some calls:
 * what they concern is in memory or in a process, which filters do not see, and Landlock does not
 * cover it. The guest's first filter turns them into notifications (filter_build_notified),
 * seccomp_unotify(2), and init responds: it carries out the call itself, within bounds, or lets the
 * kernel continue it if everything that was checked is in registers.
 *
 * In a sandbox with namespaces only signals are notified, where Landlock has no scopes for them.
 *
 * Without --cow each call that changes files is notified too, at every level, and init reports it
 * to the keeper (notify_writes.c). Where the workspace is written through, it waits until the
 * keeper has copied what is there; in the sandbox's own it goes on at once. That protects nothing,
 * so it may be hidden: a thread that changes the path meanwhile only hides its write from undo.
 *
 * The caller is hostile. While it blocks, its other threads change its memory, descriptors and
 * directories; it may be killed, and its number reused. So each thing is checked once, held by a
 * descriptor, and checked as the object that it is; after each look into /proc/TID the notification
 * is checked to be still valid; and init acts on the checked object. This process has the guest's
 * ids and Landlock rules (and /proc), so a mistake here gives nothing that the guest does not have.
 * Nothing here blocks on the guest: files are opened with O_PATH, which no FIFO can delay. */

enum {
    NOTIFY_PLACES = 32,    /* directories in which the guest may change attributes */
    NOTIFY_WAITING = 16,   /* connections that wait for space in a queue */
    NOTIFY_PENDING = 256,  /* tasks that may be about to be forked */
    NOTIFY_TOUCHES = 1024, /* calls that wait for the keeper; the next ones go on unseen */
};

struct notify_settings {
    const struct landlock_rule
        *rules; /* the guest's; directories that a rule makes writable are places */
    unsigned rule_count;
    const char *egress_path; /* a listening socket, for EGRESS_PROXY_PORT; NULL or "": no egress */
    uint64_t file_bytes;     /* largest file */
    uint32_t tasks_max;      /* processes and threads together; 0: not limited here */
    pid_t root;              /* the sandbox is its descendants, processes.h */
};

/* A notification. */
struct notify_call {
    struct notify *notify;
    int listener_fd;
    uint64_t id;
    pid_t tid; /* the calling thread */
    int number;
    uint64_t arguments[6];
};

/* A connection whose listener's queue was full. */
struct notify_waiting {
    struct notify_call call;
    int to_fd; /* the socket's file, O_PATH; -1: free */
};

struct notify_pending {
    pid_t tid;
    uint64_t since_ns;
};

/* A call that waits for the keeper. */
struct notify_touch {
    struct notify_call call; /* listener_fd 0: free */
    bool sent;
};

struct notify {
    int fd; /* to poll: readable when there is something to serve; -1: nothing is served */
    int timer_fd;
    struct notify_settings settings;
    int places[NOTIFY_PLACES];
    unsigned place_count;
    struct notify_waiting waiting[NOTIFY_WAITING];
    unsigned waiting_count;
    uint64_t forked_ns; /* when a fork was last allowed */
    uint32_t tasks;     /* an upper bound of their number */
    uint64_t full_until_ns;
    struct notify_pending pending[NOTIFY_PENDING];
    unsigned pending_next;
    struct {
        int fd;       /* of the keeper; -1: there is none */
        int event_fd; /* in the sandbox's own workspace: counts calls, which do not wait for the
                         keeper; else -1 */
        uint32_t *answers; /* to the calls at each place below; the keeper sees it too */
        int work_fd;       /* the workspace, which the user may move meanwhile */
        struct notify_touch waiting[NOTIFY_TOUCHES];
        unsigned most; /* none after this is taken */
        unsigned unsent;
    } touch;
};

/* For the child that becomes the guest: installs the filter. Returns the listener, which the caller
 * must hand over and close, or -errno: -EBUSY if an enclosing container already has one on this
 * process. */
int notify_install(const struct sock_fprog *program);

/* settings: what it points to must outlive notify. 0 or -errno. */
int notify_open(struct notify *notify, const struct notify_settings *settings);

/* Serves this listener until its last process has exited. listener_fd: taken. 0 or -errno. */
int notify_take(struct notify *notify, int listener_fd);

/* Waits at most timeout_ms (-1: without limit) and handles a bounded number of notifications. Until
 * a notification is received any signal can interrupt its caller, and then fork(2) fails with
 * EINTR, which programs do not expect: so this is quick, and polls for a while after a fork. A
 * caller without a response blocks, and can be killed: nothing forks while this is not called. */
void notify_serve(struct notify *notify, int timeout_ms);

/* From now on this keeper is notified of what changes files in the workspace. fd: a SOCK_SEQPACKET
 * for struct wire_touch, taken, and so is event_fd: see above. answers: memory that both share,
 * NOTIFY_TOUCHES numbers: by the number of a touch, how many have been answered. */
void notify_tell(struct notify *notify, int fd, int event_fd, const char *workspace,
                 uint32_t *answers);

/* Lets this descriptor wake notify_serve(), too, when it is readable. 0 or -errno. */
int notify_also(struct notify *notify, int fd);

/* --- inside of notify*.c: a notification, and what its handlers share --- */

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

/* --- supervisor.c, notify.c --- */

/* Who carries out a call of this number; the last one has no function. */
struct notify_handler {
    int number;
    long (*handle)(const struct notify_call *call);
};
extern const struct notify_handler notify_handlers_of_files[]; /* and of sockets */
extern const struct notify_handler notify_handlers_of_tasks[];

/* Retries the waiting connections. */
void sockets_retry(struct notify *notify);
/* Forgets the waiting connections of this listener. */
void sockets_forget(struct notify *notify, int listener_fd);
