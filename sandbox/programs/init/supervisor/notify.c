#include "sandbox/programs/init/supervisor/notify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/protocol/init_protocol.h"

int caller_look(const struct notify_call *call, const char *name, int flags)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)call->tid, name);
    int fd = open(path, flags | O_CLOEXEC);
    int error = fd < 0 ? errno : 0;
    /* Without this check the number could by this time belong to an unrelated process. */
    if (!notify_is_asked(call)) {
        own_close(&fd);
        return -ESRCH;
    }
    return fd < 0 ? -(error == EACCES ? EPERM : error) : fd;
}

int caller_read(const struct notify_call *call, uint64_t address, void *out, size_t size)
{
    defer_close int fd = caller_look(call, "mem", O_RDONLY);
    if (fd < 0) {
        return fd;
    }
    return pread(fd, out, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

int caller_read_path(const struct notify_call *call, uint64_t address, char path[PATH_MAX])
{
    defer_close int fd = caller_look(call, "mem", O_RDONLY);
    size_t size = 0;
    if (fd < 0) {
        return fd;
    }
    /* The memory after the string may be unmapped; the read then returns less, proc_pid_mem(5). */
    while (size < PATH_MAX) {
        ssize_t got = pread(fd, path + size, PATH_MAX - size, (off_t)(address + size));
        if (got <= 0) {
            return -EFAULT;
        }
        if (memchr(path + size, '\0', (size_t)got)) {
            return 0;
        }
        size += (size_t)got;
    }
    return -ENAMETOOLONG;
}

int caller_descriptor(const struct notify_call *call, int number)
{
    char name[32];
    if (number < 0) {
        return -EBADF;
    }
    (void)snprintf(name, sizeof name, "fd/%d", number);
    int fd = caller_look(call, name, O_PATH);
    return fd == -ENOENT ? -EBADF : fd;
}

bool caller_has_space(const struct notify_call *call)
{
    struct rlimit limit = {};
    struct stat st;
    int fd = caller_look(call, "fd", O_RDONLY | O_DIRECTORY);
    defer_closedir DIR *fds = fd_directory(fd);
    if (!fds || prlimit(call->tid, RLIMIT_NOFILE, NULL, &limit) < 0 || fstat(fd, &st) < 0) {
        return true; /* of another user's, at level container, nobody may list them */
    }
    rlim_t count = (rlim_t)st.st_size; /* 0 before Linux 6.2 */
    while (st.st_size == 0 && count < limit.rlim_cur && fd_next_name(fds)) {
        count++;
    }
    return count < limit.rlim_cur;
}

/* The process of a thread; 0: there is none. */
static pid_t caller_process(pid_t tid)
{
    char text[512]; /* the fourth line has it, proc(5) */
    size_t size = read_proc(tid, "status", text, sizeof text);
    return size > 0 ? (pid_t)parse_field(text, "Tgid:", 0) : 0;
}

int caller_own_descriptor(const struct notify_call *call, const char *path)
{
    static const char *const roots[] = {"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"};
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    char by_number[40];
    const char *rest = NULL;
    for (unsigned i = 0; !rest && i < 3; i++) {
        if (strcmp(path, streams[i]) == 0) {
            return (int)i;
        }
        size_t size = strlen(roots[i]);
        rest = strncmp(path, roots[i], size) == 0 ? path + size : NULL;
    }
    if (!rest && strncmp(path, "/proc/", 6) == 0) {
        int size =
            snprintf(by_number, sizeof by_number, "/proc/%d/fd/", (int)caller_process(call->tid));
        rest = strncmp(path, by_number, (size_t)size) == 0 ? path + size : NULL;
    }
    size_t digits = rest ? strspn(rest, "0123456789") : 0;
    return digits > 0 && digits < 8 && !rest[digits] ? (int)strtoul(rest, NULL, 10) : -1;
}

int caller_open(const struct notify_call *call, int dir_number, const char *path, bool nofollow)
{
    defer_close int dir_fd = -1;
    if (path[0] != '/') {
        dir_fd = dir_number == AT_FDCWD ? caller_look(call, "cwd", O_PATH)
                                        : caller_descriptor(call, dir_number);
        if (dir_fd < 0) {
            return dir_fd;
        }
    } else if (!nofollow) {
        int number = caller_own_descriptor(call, path);
        if (number >= 0) {
            return caller_descriptor(call, number);
        }
    }
    return fd_open_named(path[0] == '/' ? AT_FDCWD : dir_fd, path,
                         O_PATH | (nofollow ? O_NOFOLLOW : 0),
                         /* mode= */ 0);
}

const char *held_name(int object_fd, char name[HELD_NAME])
{
    (void)snprintf(name, HELD_NAME, "/proc/self/fd/%d", object_fd);
    return name;
}

bool notify_is_in_place(const struct notify *notify, int object_fd)
{
    char name[HELD_NAME];
    char object[PATH_MAX];
    char place[PATH_MAX];
    ssize_t object_size = readlink(held_name(object_fd, name), object, sizeof object - 1);
    if (object_size <= 0) {
        return false;
    }
    object[object_size] = '\0';
    for (unsigned i = 0; i < notify->place_count; i++) {
        ssize_t size = readlink(held_name(notify->places[i], name), place, sizeof place);
        if (size > 1 && size <= object_size && memcmp(place, object, (size_t)size) == 0 &&
            (object[size] == '/' || object[size] == '\0')) {
            return true;
        }
    }
    return false;
}

enum {
    OTHERS = -1,              /* marks a descriptor that others serve */
    STAY_NS = 500000,         /* to poll after a fork, as more usually follow */
    SERVE_MOST = 64,          /* notifications, before init's other duties have their turn */
    NOTIFICATION_BYTES = 512, /* for kernels with a larger struct, seccomp_unotify(2) */
};

/* The kernel fills it; its struct may be larger than ours. */
union notification {
    struct seccomp_notif head;
    char bytes[NOTIFICATION_BYTES];
};

/* Who carries out a call of this number, or NULL. */
static const struct notify_handler *find_handler(int number)
{
    const struct notify_handler *const tables[] = {notify_handlers_of_files,
                                                   notify_handlers_of_tasks};
    for (unsigned i = 0; i < sizeof tables / sizeof(__typeof__(tables[0])); i++) {
        for (const struct notify_handler *at = tables[i]; at->handle; at++) {
            if (at->number == number) {
                return at;
            }
        }
    }
    return NULL;
}

int notify_install(const struct sock_fprog *program)
{
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    /* With this flag only a fatal signal interrupts a call that is being handled. */
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
        defer_close int fd = landlock_open(rule);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
            continue; /* no rule either, or a file */
        }
        if (notify->place_count == NOTIFY_PLACES) {
            return -E2BIG;
        }
        notify->places[notify->place_count++] = take_fd(&fd);
    }
    return 0;
}

/* known_as: the value that serve_event() gets for it */
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
    if (sizes.seccomp_notif > sizeof(union notification)) {
        return -E2BIG;
    }
    *notify = (struct notify){.settings = *settings,
                              .tasks = UINT32_MAX,
                              .touch.fd = -1,
                              .touch.work_fd = -1,
                              .touch.event_fd = -1};
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
    /* Caller and init take turns: on one processor a synchronous wake-up is quicker. Optional. */
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

void notify_respond(const struct notify_call *call, long result)
{
    struct seccomp_notif_resp response = {.id = call->id};
    if (result == NOTIFY_LATER) {
        return;
    }
    if (result == NOTIFY_GO_ON) {
        response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else if (result < 0) {
        response.error = (int32_t)result;
    } else {
        response.val = result;
    }
    /* Fails if the caller is gone. */
    (void)ioctl(call->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void notify_carry_out(const struct notify_call *call)
{
    bool writes = writes_has(call->number);
    /* With namespaces the kernel decides about files. */
    bool decides = !writes || call->notify->settings.root;
    const struct notify_handler *handler = find_handler(call->number);
    notify_respond(call, decides && handler ? handler->handle(call)
                         : writes           ? NOTIFY_GO_ON
                                            : -ENOSYS);
}

static void serve_one(struct notify *notify, int listener_fd)
{
    static union notification notification;
    memset(&notification, 0, sizeof notification); /* the kernel requires it */
    /* Does not block: a notification is pending, or ENOENT if the caller was killed meanwhile. */
    if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &notification) < 0) {
        return;
    }
    const struct seccomp_notif *head = &notification.head;
    struct notify_call call = {.notify = notify,
                               .listener_fd = listener_fd,
                               .id = head->id,
                               .tid = (pid_t)head->pid,
                               .number = head->data.nr};
    memcpy(call.arguments, head->data.args, sizeof call.arguments);
    if (!writes_tell(&call)) {
        notify_carry_out(&call);
    }
}

static void serve_event(struct notify *notify, const struct epoll_event *event)
{
    uint64_t ticks = 0;
    int fd = event->data.fd;
    if (fd == notify->touch.fd) {
        writes_answered(notify);
    } else if (fd == notify->timer_fd) {
        (void)read(fd, &ticks, sizeof ticks);
        sockets_retry(notify);
    } else if (event->events & EPOLLIN) {
        serve_one(notify, fd);
    } else { /* EPOLLHUP: the last process with this filter has exited */
        sockets_forget(notify, fd);
        writes_forget(notify, fd);
        (void)close(fd);
    }
}

void notify_tell(struct notify *notify, int fd, int event_fd, const char *workspace,
                 uint32_t *answers)
{
    defer_close int tell_fd = fd;
    defer_close int own_event_fd = event_fd;
    defer_close int work_fd = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (notify->fd >= 0 && work_fd >= 0 && watch_fd(notify, tell_fd, tell_fd) == 0) {
        own_close(&notify->touch.work_fd);
        notify->touch.work_fd = take_fd(&work_fd);
        notify->touch.fd = take_fd(&tell_fd);
        own_close(&notify->touch.event_fd);
        notify->touch.event_fd = take_fd(&own_event_fd);
        notify->touch.answers = answers;
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
    uint64_t began_ns = clock_now_ns();
    for (int served = 0; served < SERVE_MOST && !others; served += count) {
        uint64_t now_ns = clock_now_ns();
        bool stays = now_ns - notify->forked_ns < STAY_NS;
        int waited_ms = (int)((now_ns - began_ns) / CLOCK_NS_PER_MS);
        int left_ms = waited_ms < timeout_ms || timeout_ms < 0 ? timeout_ms - waited_ms : 0;
        count = epoll_wait(notify->fd, events, sizeof events / sizeof *events, stays ? 0 : left_ms);
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

/* Fork and signal notifications. What is checked here is in registers, which nothing can change any
 * more; so the kernel carries out forks and signals to oneself. Another process could be gone and
 * its number reused before the kernel reads it: init sends those signals itself, pidfd_open(2). */

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
