#include "sandbox/init/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/confine/abi.h"
#include "sandbox/init/notify_call.h"

enum {
    OTHERS = -1,          /* in the place of a descriptor that is not ours to serve */
    STAY_NS = 500000,     /* awake after a birth, which is seldom the last */
    SERVE_MOST = 64,      /* questions, before others of pid 1's duties have their turn */
    QUESTION_BYTES = 512, /* of a kernel that says more than we know of, seccomp_unotify(2) */
};

/* Filled with what the kernel says, which may be longer than we know. */
union question {
    struct seccomp_notif head;
    char bytes[QUESTION_BYTES];
};

static const struct {
    int number;
    long (*answer)(const struct notify_call *call);
} answers[] = {
#ifdef SYS_chmod /* 64-bit ARM has the newer of each call only */
    {SYS_chmod, answer_chmod},
    {SYS_utime, answer_utime},
    {SYS_utimes, answer_utimes},
    {SYS_futimesat, answer_futimesat},
    {SYS_fork, answer_clone},
    {SYS_vfork, answer_clone},
#endif
    {SYS_fchmod, answer_fchmod},
    {SYS_fchmodat, answer_fchmodat},
    {SYS_utimensat, answer_utimensat},
    {SYS_truncate, answer_truncate},
    {SYS_socket, answer_socket},
    {SYS_bind, answer_bind},
    {SYS_connect, answer_connect},
    {SYS_clone, answer_clone},
    {SYS_kill, answer_kill},
    {SYS_tkill, answer_tkill},
    {SYS_tgkill, answer_tgkill},
    {SYS_rt_sigqueueinfo, answer_sigqueue},
    {SYS_rt_tgsigqueueinfo, answer_tgsigqueue},
    {SYS_pidfd_send_signal, answer_pidfd_signal},
};

int notify_install(const struct sock_fprog *program)
{
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    /* With it no signal but a deadly one interrupts a call that is being answered. */
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, program);
    if (fd < 0 && errno == EINVAL) {
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
    }
    return fd < 0 ? -errno : fd;
}

static int add_places(struct notify *notify)
{
    for (unsigned i = 0; i < notify->settings.rule_count; i++) {
        const struct landlock_rule *rule = &notify->settings.rules[i];
        if (!(rule->allowed & LANDLOCK_FS_WRITE_FILE)) {
            continue;
        }
        struct stat st;
        int fd = landlock_open(rule);
        if (fd < 0) {
            continue; /* no rule either */
        }
        if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
            (void)close(fd);
            continue;
        }
        if (notify->place_count == NOTIFY_PLACES) {
            (void)close(fd);
            return -E2BIG;
        }
        notify->places[notify->place_count++] = fd;
    }
    return 0;
}

/* known_as: what serve_event() gets for it */
static int watch_fd(const struct notify *notify, int fd, int known_as)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = known_as};
    return epoll_ctl(notify->fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int notify_open(struct notify *notify, const struct notify_settings *settings)
{
    struct seccomp_notif_sizes sizes = {};
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0) {
        return -errno;
    }
    if (sizes.seccomp_notif > sizeof(union question)) {
        return -E2BIG;
    }
    *notify = (struct notify){.settings = *settings, .tasks = UINT32_MAX};
    for (unsigned i = 0; i < NOTIFY_WAITING; i++) {
        notify->waiting[i].to_fd = -1;
    }
    notify->fd = epoll_create1(EPOLL_CLOEXEC);
    notify->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (notify->fd < 0 || notify->timer_fd < 0) {
        return -errno;
    }
    int r = watch_fd(notify, notify->timer_fd, notify->timer_fd);
    return r ? r : add_places(notify);
}

int notify_take(struct notify *notify, int listener_fd)
{
    /* Who asks sleeps and we wake, and the other way round: on one processor that is quicker. Only a wish. */
    (void)ioctl(listener_fd, NOTIFY_SET_FLAGS, NOTIFY_SYNC_WAKE_UP);
    int r = watch_fd(notify, listener_fd, listener_fd);
    if (r < 0) {
        (void)close(listener_fd);
    }
    return r;
}

bool notify_is_asked(const struct notify_call *call)
{
    return ioctl(call->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->id) == 0;
}

void notify_answer(const struct notify_call *call, long result)
{
    struct seccomp_notif_resp response = {.id = call->id};
    if (result == NOTIFY_ANSWERED) {
        return;
    }
    if (result == NOTIFY_GO_ON) {
        response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else if (result < 0) {
        response.error = (int32_t)result;
    } else {
        response.val = result;
    }
    /* It fails where whoever asked is gone. */
    (void)ioctl(call->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static void serve_one(struct notify *notify, int listener_fd)
{
    static union question question;
    memset(&question, 0, sizeof question); /* the kernel insists */
    /* Does not wait: somebody asked, and if he was killed since, this is ENOENT. */
    if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &question) < 0) {
        return;
    }
    const struct seccomp_notif *head = &question.head;
    struct notify_call call = {.notify = notify,
                               .listener_fd = listener_fd,
                               .id = head->id,
                               .tid = (pid_t)head->pid,
                               .number = head->data.nr};
    memcpy(call.arguments, head->data.args, sizeof call.arguments);
    long result = -ENOSYS;
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (answers[i].number == call.number) {
            result = answers[i].answer(&call);
            break;
        }
    }
    notify_answer(&call, result);
}

static void serve_event(struct notify *notify, const struct epoll_event *event)
{
    uint64_t ticks = 0;
    int fd = event->data.fd;
    if (fd == notify->timer_fd) {
        (void)read(fd, &ticks, sizeof ticks);
        sockets_retry(notify);
    } else if (event->events & EPOLLIN) {
        serve_one(notify, fd);
    } else { /* EPOLLHUP: the last process with this filter has ended */
        sockets_forget(notify, fd);
        (void)close(fd);
    }
}

int notify_also(struct notify *notify, int fd)
{
    return watch_fd(notify, fd, OTHERS);
}

void notify_serve(struct notify *notify, int timeout_ms)
{
    struct epoll_event events[8];
    bool others = false;
    int count = 1;
    for (int served = 0; served < SERVE_MOST && !others; served += count) {
        bool stays = clock_now_ns() - notify->born_ns < STAY_NS;
        count = epoll_wait(notify->fd, events, sizeof events / sizeof *events,
                           served == 0 && !stays ? timeout_ms : 0);
        if (count <= 0) {
            if (!stays) {
                break;
            }
            count = 0;
            (void)sched_yield();
        }
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == OTHERS) {
                others = true;
            } else {
                serve_event(notify, &events[i]);
            }
        }
    }
}
