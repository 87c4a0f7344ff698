/* Fork and signal notifications. What is checked here is in registers, which nothing can change any
 * more; so the kernel carries out forks and signals to oneself. Another process could be gone and
 * its number reused before the kernel reads it: init sends those signals itself, pidfd_open(2). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/programs/common/process_tree.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/supervisor/notify.h"
#include "sandbox/protocol/init_protocol.h"

enum {
    RESOLVE_MS = 20, /* after this time an allowed fork is visible */
    FULL_MS = 5,     /* pause between two counts at the limit: a count reads all processes */
};

/* --- forks --- */

/* Number of a process's threads; 0: it is gone. */
static uint32_t count_threads(pid_t pid)
{
    char path[32];
    struct stat st;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return stat(path, &st) < 0 ? 0 : (uint32_t)st.st_nlink - 2;
}

/* Living tasks, and allowed ones that may not be visible yet. A thread that calls again has
 * returned from its last fork. */
static uint32_t count_tasks(const struct notify *notify, pid_t asking, uint64_t now)
{
    uint32_t tasks = 0;
    for (const pid_t *pid = process_tree_list(notify->settings.root); *pid; pid++) {
        tasks += count_threads(*pid);
    }
    for (unsigned i = 0; i < NOTIFY_PENDING; i++) {
        const struct notify_pending *pending = &notify->pending[i];
        tasks += pending->tid && pending->tid != asking &&
                 now - pending->since_ns < RESOLVE_MS * CLOCK_NS_PER_MS;
    }
    return tasks;
}

static void remember_fork(struct notify *notify, pid_t tid, uint64_t now)
{
    unsigned at = notify->pending_next;
    for (unsigned i = 0; i < NOTIFY_PENDING; i++) {
        if (notify->pending[i].tid == tid) {
            at = i;
        }
    }
    notify->pending[at] = (struct notify_pending){.tid = tid, .since_ns = now};
    if (at == notify->pending_next) {
        notify->pending_next = (at + 1) % NOTIFY_PENDING;
    }
}

static long handle_clone(const struct notify_call *call)
{
    struct notify *notify = call->notify;
    uint32_t most = notify->settings.tasks_max;
    uint64_t now = clock_now_ns();
    notify->forked_ns = now;
    struct tags tags = {};
    if (!most) {
        return NOTIFY_GO_ON;
    }
    if (notify->tasks >= most && tags_of(call->tid, &tags) == 0 &&
        (tags.cell == 0 || tags.hard == WIRE_TAG_ZYGOTE)) { /* no code runs in the caller */
        most += LIMIT_PIDS_SPARE;
    }
    /* Every fork since the last count was notified here, so there are no more tasks than these. */
    if (notify->tasks >= most) {
        if (now < notify->full_until_ns) {
            return -EAGAIN;
        }
        notify->tasks = count_tasks(notify, call->tid, now);
        if (notify->tasks >= most) {
            notify->full_until_ns = now + FULL_MS * CLOCK_NS_PER_MS;
            return -EAGAIN;
        }
    }
    notify->tasks++;
    remember_fork(notify, call->tid, now);
    return NOTIFY_GO_ON;
}

/* --- signals --- */

static long pidfd_signal(int pidfd, int number, const siginfo_t *info)
{
    return syscall(SYS_pidfd_send_signal, pidfd, number, info, 0) < 0 ? -errno : 0;
}

static bool has_ended(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, /* timeout= */ 0) > 0;
}

/* Whether a thread belongs to this process. Does not need /proc, which may be missing. */
static bool is_thread_of(pid_t process, pid_t thread)
{
    return process > 0 && syscall(SYS_tgkill, process, thread, 0) == 0;
}

/* Sends to a process of the caller's session, but not to the zygote, init, other sessions or their
 * checkpoints. info: NULL: as kill(2), but with SI_QUEUE: SI_USER marks init's own signals, which
 * wake checkpoints. */
static long send_to(const struct notify_call *call, pid_t pid, int number, const siginfo_t *info)
{
    siginfo_t own = {.si_signo = number, .si_code = SI_QUEUE};
    own.si_pid = caller_process(call->tid);
    own.si_uid = getuid();
    defer_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        return -errno;
    }
    bool same = process_tree_has(call->notify->settings.root, pid) && tags_same(call->tid, pid);
    if (!notify_is_asked(call)) {
        return -ESRCH;
    }
    if (has_ended(pidfd)) {
        return 0; /* a zombie, whoever its parent is: nothing happens */
    }
    /* It is not reaped, so it is the process that was checked. */
    return same ? pidfd_signal(pidfd, number, info ? info : &own) : -EPERM;
}

/* group: 0: all processes but the caller */
static long send_to_group(const struct notify_call *call, pid_t group, int number)
{
    long result = -ESRCH;
    for (const pid_t *pid = process_tree_list(call->notify->settings.root); *pid; pid++) {
        bool meant = group ? getpgid(*pid) == group : !is_thread_of(*pid, call->tid);
        if (meant) {
            long r = send_to(call, *pid, number, NULL);
            result = result == 0 ? 0 : r;
        }
    }
    return result;
}

static long handle_kill(const struct notify_call *call)
{
    pid_t to = (pid_t)call->arguments[0];
    int number = (int)call->arguments[1];
    bool own = is_thread_of(to, call->tid);
    pid_t group = getpgid(call->tid);
    if (!notify_is_asked(call)) {
        return -ESRCH;
    }
    if (to > 0) {
        return own ? NOTIFY_GO_ON : send_to(call, to, number, NULL);
    }
    if (to == INT_MIN) {
        return -ESRCH;
    }
    if (to == -1) {
        return send_to_group(call, /* group= */ 0, number);
    }
    /* The guest's first process started a process session of its own, so its groups have only its
     * descendants. */
    return to == 0 || -to == group ? NOTIFY_GO_ON : send_to_group(call, -to, number);
}

/* A thread of another process gets no signal of its own, except for the first, which stands for
 * all. */
static long send_to_thread(const struct notify_call *call, pid_t process, pid_t thread, int number)
{
    bool own = is_thread_of(process, call->tid);
    if (!notify_is_asked(call)) {
        return -ESRCH;
    }
    if (own) {
        return NOTIFY_GO_ON;
    }
    return process == thread ? send_to(call, process, number, NULL) : -EPERM;
}

static long handle_tgkill(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return send_to_thread(call, (pid_t)a[0], (pid_t)a[1], (int)a[2]);
}

/* The call names no process: it is looked up first. */
static long handle_tkill(const struct notify_call *call)
{
    pid_t thread = (pid_t)call->arguments[0];
    int number = (int)call->arguments[1];
    if (thread == call->tid) {
        return NOTIFY_GO_ON;
    }
    pid_t process = thread > 0 ? caller_process(thread) : 0;
    if (!process) {
        return thread > 0 ? -ESRCH : -EINVAL;
    }
    long result = send_to_thread(call, process, thread, number);
    if (result != NOTIFY_GO_ON) {
        return result;
    }
    return syscall(SYS_tgkill, process, thread, number) < 0 ? -errno : 0;
}

static long queue_to(const struct notify_call *call, pid_t process, pid_t thread, int number,
                     uint64_t address)
{
    siginfo_t info;
    bool own = is_thread_of(process, call->tid);
    if (!notify_is_asked(call)) {
        return -ESRCH;
    }
    if (own && call->number != SYS_pidfd_send_signal) {
        return NOTIFY_GO_ON; /* the kernel reads and checks the info */
    }
    int r = caller_read(call, address, &info, sizeof info);
    if (r < 0) {
        return r;
    }
    info.si_signo = number;
    return process == thread ? send_to(call, process, number, &info) : -EPERM;
}

static long handle_sigqueue(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return queue_to(call, (pid_t)a[0], (pid_t)a[0], (int)a[1], a[2]);
}

static long handle_tgsigqueue(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return queue_to(call, (pid_t)a[0], (pid_t)a[1], (int)a[2], a[3]);
}

/* The process of the caller's pidfd; 0: none, or it has exited. Its number is not reused while the
 * descriptor is open and it is not reaped, which send_to() checks. */
static pid_t process_of_descriptor(const struct notify_call *call, int number)
{
    char name[32];
    char text[512];
    (void)snprintf(name, sizeof name, "fdinfo/%d", number);
    defer_close int fd = caller_look(call, name, O_RDONLY);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    return (pid_t)parse_field(text, "Pid:", 0); /* only in pidfds, pidfd_open(2) */
}

static long handle_pidfd_signal(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    pid_t process = process_of_descriptor(call, (int)a[0]);
    if (process == 0) {
        return -ESRCH;
    }
    if (a[3] != 0) {
        return -EINVAL;
    }
    return a[2] ? queue_to(call, process, process, (int)a[1], a[2])
                : send_to(call, process, (int)a[1], NULL);
}

const struct notify_handler notify_handlers_of_tasks[] = {
#ifdef SYS_fork /* 64-bit ARM has only the newer of these calls */
    {SYS_fork, handle_clone},
    {SYS_vfork, handle_clone},
#endif
    {SYS_clone, handle_clone},
    {SYS_kill, handle_kill},
    {SYS_tkill, handle_tkill},
    {SYS_tgkill, handle_tgkill},
    {SYS_rt_sigqueueinfo, handle_sigqueue},
    {SYS_rt_tgsigqueueinfo, handle_tgsigqueue},
    {SYS_pidfd_send_signal, handle_pidfd_signal},
    {},
};
