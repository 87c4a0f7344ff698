#pragma once
#include <linux/filter.h>
#include <stdbool.h>
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
    pid_t root;              /* the sandbox is its descendants, process_tree.h */
};

/* A connection whose listener's queue was full. */
struct notify_waiting {
    uint64_t id; /* of the notification */
    int listener_fd;
    pid_t tid;
    int to_fd;  /* the socket's file, O_PATH; -1: free */
    int number; /* of the descriptor to replace */
};

struct notify_pending {
    pid_t tid;
    uint64_t since_ns;
};

/* A call that waits for the keeper. */
struct notify_touch {
    uint64_t id;
    int listener_fd; /* 0: free */
    pid_t tid;
    int number;
    uint64_t arguments[6];
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
