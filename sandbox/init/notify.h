#pragma once
#include <linux/filter.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/confine/landlock.h"

/* Where the guest has no namespaces of its own, some calls can neither be let through nor be refused by
 * a filter: what they are about is in memory or in a process, which filters do not see, and Landlock does
 * not judge them. The guest's first filter turns them into questions (filter_build_notified), seccomp_unotify(2),
 * and pid 1's program answers: it carries the call out itself, within bounds, or says "go on" where all
 * that was judged is in registers.
 *
 * In a sandbox with namespaces only signals are asked about, where Landlock has no scopes for them.
 *
 * Who asks is hostile. While he waits, others of his threads change his memory, descriptors and folders,
 * and he may be killed and his number be another's. So each thing is looked at once, held by a
 * descriptor, and judged as what it is; the question is seen to be still there behind each look at
 * /proc/TID; and what is done is done to what was judged. This process has the guest's ids and
 * Landlock rules (and /proc), so that a mistake here gives nothing that the guest does not have. Nothing
 * here waits for the guest: what is named is opened with O_PATH, which no FIFO can hold up. */

enum {
    NOTIFY_PLACES = 32,   /* folders in which the guest may change attributes */
    NOTIFY_WAITING = 16,  /* connections that wait for room in a queue */
    NOTIFY_PENDING = 256, /* tasks that may be about to be born */
};

struct notify_settings {
    const struct landlock_rule
        *rules; /* the guest's: folders of which the rule allows to write are places */
    unsigned rule_count;
    const char *egress_path; /* a listening socket, for EGRESS_PROXY_PORT; NULL or "": no way out */
    uint64_t file_bytes;     /* largest file */
    uint32_t tasks_max;      /* processes and threads together; 0: not counted here */
    pid_t root;              /* whose descendants the sandbox is, family.h */
};

/* A connection whose listener had no room. */
struct notify_waiting {
    uint64_t id; /* of the question */
    int listener_fd;
    pid_t tid;
    int to_fd;  /* the socket's file, O_PATH; -1: free */
    int number; /* of the descriptor that is to be replaced */
};

struct notify_pending {
    pid_t tid;
    uint64_t since_ns;
};

struct notify {
    int fd; /* to be polled: readable when there is something to serve; -1: nothing is served */
    int timer_fd;
    struct notify_settings settings;
    int places[NOTIFY_PLACES];
    unsigned place_count;
    struct notify_waiting waiting[NOTIFY_WAITING];
    unsigned waiting_count;
    uint64_t born_ns; /* when the last birth was allowed */
    uint32_t tasks;   /* no fewer than there are */
    uint64_t full_until_ns;
    struct notify_pending pending[NOTIFY_PENDING];
    unsigned pending_next;
};

#define NOTIFY_EMPTY                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* In the child that becomes the guest: installs the filter. Returns the listener, which is to be handed
 * over and closed, or -errno: -EBUSY where the surrounding has one on this process already. */
int notify_install(const struct sock_fprog *program);

/* settings: what they point to outlives notify. 0 or -errno. */
int notify_open(struct notify *notify, const struct notify_settings *settings);

/* Serves this listener until nobody is left who could ask. listener_fd: taken. 0 or -errno. */
int notify_take(struct notify *notify, int listener_fd);

/* Waits for at most timeout_ms (-1: as long as it takes) and answers what is asked, a bounded number of
 * questions. Until its question is taken up a caller can be interrupted by any signal, and then fork(2) fails
 * with EINTR, of which no program has heard: so this is quick, and stays awake for a little after a birth.
 * Who is not answered waits, and can be killed: no task is born while this is not called. */
void notify_serve(struct notify *notify, int timeout_ms);

/* Lets this descriptor wake notify_serve(), too, when there is something to read. 0 or -errno. */
int notify_also(struct notify *notify, int fd);
