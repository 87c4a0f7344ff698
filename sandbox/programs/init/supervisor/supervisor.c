/* Where a sandbox has no pid namespace, init is its supervisor: an ordinary process, but a
 * subreaper, so that all that the guest starts stays below it, and nothing is left when it has no
 * child left. It has no privileges either. If the server could assign uids, it has the guest's,
 * except for the real and the saved one: so it can do to the guest what the guest can, and the
 * guest can neither signal nor trace it. It requests no death signal, because it must kill the
 * others before it exits: the end of its socket notifies it.
 *
 * It has a Landlock domain of its own, with the guest's rights, overflow files and /proc, so that
 * the file tools and the calls that it carries out for the guest (notify.h) reach no more than the
 * guest. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "base/own.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/programs/init/supervisor/notify.h"
#include "sandbox/types.h"

enum { OWN_RULES = 3 };

/* Grants RESOLVE_UNIX: this process connects for the guest, after it has checked the target. */
static int confine_self(const struct init *init)
{
    struct landlock_rule rules[INIT_RULES + OWN_RULES];
    unsigned count = 0;
    for (; count < init->rule_count; count++) {
        rules[count] = init->rules[count];
        if (rules[count].allowed & LANDLOCK_FS_MAKE_SOCK) {
            rules[count].allowed |= LANDLOCK_FS_RESOLVE_UNIX;
        }
    }
    rules[count++] = (struct landlock_rule){"/proc", LANDLOCK_RULE_READ | LANDLOCK_FS_WRITE_FILE};
    rules[count++] =
        (struct landlock_rule){init->paths.output, LANDLOCK_RULE_WRITE | LANDLOCK_RULE_STRAIGHT};
    if (init->paths.egress[0]) {
        rules[count++] = (struct landlock_rule){init->paths.egress, LANDLOCK_FS_RESOLVE_UNIX};
    }
    return landlock_confine(rules, count, LANDLOCK_NO_TCP);
}

enum wire_step supervisor_begin(struct init *init)
{
    const struct notify_settings settings = {.rules = init->rules,
                                             .rule_count = init->rule_count,
                                             .egress_path = init->paths.egress,
                                             .file_bytes = init->config->file_bytes,
                                             .tasks_max = init->config->tasks_max,
                                             .root = getpid()};
    init->processes.root = settings.root;
    if (confine_self(init) < 0) {
        return WIRE_STEP_LANDLOCK;
    }
    return notify_open(&init->notify, &settings) < 0 ? WIRE_STEP_LISTENER : WIRE_STEP_NONE;
}

/* --- calls that it carries out for the guest: see notify.h --- */

/* Without set-user-ID and set-group-ID, which a filter refuses as well. */
enum { MODE_BITS = 01777 };

/* Returns the object that a call names if the guest may change its attributes; else -EPERM. */
static int check(const struct notify_call *call, int object_fd)
{
    if (object_fd < 0 || notify_is_in_place(call->notify, object_fd)) {
        return object_fd;
    }
    (void)close(object_fd);
    return -EPERM;
}

static int check_path(const struct notify_call *call, int dir_number, uint64_t address,
                      bool nofollow)
{
    char path[PATH_MAX];
    int r = caller_read_path(call, address, path);
    return r < 0 ? r : check(call, caller_open(call, dir_number, path, nofollow));
}

/* Accepts descriptors opened with O_PATH like any other, because the objects are the guest's. */
static int check_descriptor(const struct notify_call *call, uint64_t number)
{
    return check(call, caller_descriptor(call, (int)number));
}

/* times: NULL: the current time */
static long change_times(int object_fd, const struct timespec *times)
{
    char name[HELD_NAME];
    defer_close int fd = object_fd;
    if (fd < 0) {
        return fd;
    }
    return utimensat(AT_FDCWD, held_name(fd, name), times, 0) < 0 ? -errno : 0;
}

/* Also fchmod(2) and fchmodat(2), which have the file, or its directory, as a descriptor. */
static long handle_chmod(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    bool at = call->number == SYS_fchmodat;
    char name[HELD_NAME];
    defer_close int fd = call->number == SYS_fchmod
                             ? check_descriptor(call, a[0])
                             : check_path(call, at ? (int)a[0] : AT_FDCWD, a[at], false);
    if (fd < 0) {
        return fd;
    }
    return chmod(held_name(fd, name), (mode_t)a[1 + at] & MODE_BITS) < 0 ? -errno : 0;
}

/* The object of utimensat(2). Without a path it is the descriptor's, as for futimens(3). */
static int check_utimensat(const struct notify_call *call, int dir_number, uint64_t path, int flags)
{
    char first = '\0';
    if (!path && dir_number != AT_FDCWD) {
        return flags ? -EINVAL : check_descriptor(call, (uint64_t)dir_number);
    }
    if (flags & AT_EMPTY_PATH) {
        int r = caller_read(call, path, &first, 1);
        if (r < 0) {
            return r;
        }
        if (!first) {
            return dir_number == AT_FDCWD ? check(call, caller_look(call, "cwd", O_PATH))
                                          : check_descriptor(call, (uint64_t)dir_number);
        }
    }
    return check_path(call, dir_number, path, flags & AT_SYMLINK_NOFOLLOW);
}

#ifdef SYS_utime /* 64-bit ARM has only the newer of these calls */
static long handle_utime(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    struct utimbuf given;
    struct timespec times[2] = {};
    int r = a[1] ? caller_read(call, a[1], &given, sizeof given) : 0;
    if (r < 0) {
        return r;
    }
    if (a[1]) {
        times[0].tv_sec = given.actime;
        times[1].tv_sec = given.modtime;
    }
    return change_times(check_path(call, AT_FDCWD, a[0], /* nofollow= */ false),
                        a[1] ? times : NULL);
}

/* futimesat(2) */
static long change_by_timeval(const struct notify_call *call, int dir_number, uint64_t path,
                              uint64_t address)
{
    enum { USEC = 1000000, NSEC_OF_USEC = 1000 };
    struct timeval given[2];
    struct timespec times[2] = {};
    int r = address ? caller_read(call, address, given, sizeof given) : 0;
    for (unsigned i = 0; address && r == 0 && i < 2; i++) {
        if (given[i].tv_usec < 0 || given[i].tv_usec >= USEC) {
            return -EINVAL;
        }
        times[i] = (struct timespec){given[i].tv_sec, given[i].tv_usec * NSEC_OF_USEC};
    }
    if (r < 0) {
        return r;
    }
    return change_times(check_utimensat(call, dir_number, path, /* flags= */ 0),
                        address ? times : NULL);
}

static long handle_utimes(const struct notify_call *call)
{
    return change_by_timeval(call, AT_FDCWD, call->arguments[0], call->arguments[1]);
}

static long handle_futimesat(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return change_by_timeval(call, (int)a[0], a[1], a[2]);
}
#endif

static long handle_utimensat(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    struct timespec times[2];
    int flags = (int)a[3];
    int r = a[2] ? caller_read(call, a[2], times, sizeof times) : 0;
    if (r < 0) {
        return r;
    }
    if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) {
        return -EINVAL;
    }
    return change_times(check_utimensat(call, (int)a[0], a[1], flags), a[2] ? times : NULL);
}

static long handle_truncate(const struct notify_call *call)
{
    char name[HELD_NAME];
    int64_t size = (int64_t)call->arguments[1];
    defer_close int fd = check_path(call, AT_FDCWD, call->arguments[0], /* nofollow= */ false);
    if (fd < 0) {
        return fd;
    }
    /* RLIMIT_FSIZE limits the guest, not init. */
    if (size > 0 && (uint64_t)size > call->notify->settings.file_bytes) {
        return -EFBIG;
    }
    return truncate(held_name(fd, name), size) < 0 ? -errno : 0;
}

/* The guest's sockets: Unix streams with paths in its places, and one to the egress proxy.
 *
 * A path is checked, and its object held; but no call connects another process's socket. So init
 * connects a socket of its own and puts it in place of the caller's descriptor. Duplicates of the
 * caller's descriptor keep the old socket. A TCP socket never exists: its substitute is a Unix
 * socket, too. */

enum {
    RETRY_NS = 5000000, /* between two attempts to connect while a queue is full */
    UNACCEPTED =
        64, /* connections; no process's figures contain the data that was sent through one */
};

/* An address of the caller's, with a NUL after it. */
struct address {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in inet;
        char bytes[sizeof(struct sockaddr_storage) + 1];
    };
    socklen_t size;
};

static int read_address(const struct notify_call *call, struct address *address)
{
    uint64_t size = call->arguments[2] & UINT32_MAX; /* an int, connect(2) */
    *address = (struct address){.size = (socklen_t)size};
    if (size < sizeof address->any.sa_family || size > sizeof(struct sockaddr_storage)) {
        return -EINVAL;
    }
    return caller_read(call, call->arguments[1], address, size);
}

/* 0: the address is a path. */
static int check_local(const struct address *address)
{
    if (address->size > sizeof address->local) {
        return -EINVAL;
    }
    /* Abstract, or left to the kernel, which chooses an abstract one: unix(7) */
    return address->size > sizeof address->any.sa_family && address->local.sun_path[0] ? 0 : -EPERM;
}

/* Flags of the caller's descriptor as in fcntl(2), with O_CLOEXEC, or -ENOTSOCK or -EBADF. */
static int socket_flags(const struct notify_call *call)
{
    int number = (int)call->arguments[0];
    static const char field[] = "flags:";
    char name[32];
    char text[128];
    struct stat st;
    defer_close int object_fd = caller_descriptor(call, number);
    if (object_fd < 0) {
        return object_fd;
    }
    if (fstat(object_fd, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return -ENOTSOCK;
    }
    (void)snprintf(name, sizeof name, "fdinfo/%d", number);
    defer_close int fd = caller_look(call, name, O_RDONLY);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (size <= 0) {
        return -EBADF;
    }
    text[size] = '\0';
    const char *found = strstr(text, field);
    return found ? (int)strtoul(found + sizeof field - 1, NULL, 8) : -EBADF;
}

static int make_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* Puts made_fd in place of the caller's descriptor, the call's first argument. */
static long replace(const struct notify_call *call, int flags, int made_fd)
{
    struct seccomp_notif_addfd add = {.id = call->id,
                                      .flags = SECCOMP_ADDFD_FLAG_SETFD,
                                      .srcfd = (uint32_t)made_fd,
                                      .newfd = (uint32_t)call->arguments[0],
                                      .newfd_flags = flags & O_CLOEXEC ? O_CLOEXEC : 0};
    /* Caller and init share this file: once it is nonblocking for the caller it is so for init,
     * which must not use it any more. */
    if (fcntl(made_fd, F_SETFL, flags & O_NONBLOCK) < 0) {
        return -errno;
    }
    return ioctl(call->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : 0;
}

static long handle_socket(const struct notify_call *call)
{
    int type = (int)call->arguments[1];
    defer_close int fd = make_socket();
    if (fd < 0) {
        return fd;
    }
    if (!(type & SOCK_NONBLOCK) && fcntl(fd, F_SETFL, 0) < 0) {
        return -errno;
    }
    struct seccomp_notif_addfd add = {
        .id = call->id, .srcfd = (uint32_t)fd, .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0};
    int number = ioctl(call->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    return number < 0 ? -errno : number;
}

/* getsockname(2) returns the guest's name, so bind(2) itself must resolve it once more. Landlock
 * checks the result: it lets init make sockets only where it lets the guest. */
static long handle_bind(const struct notify_call *call)
{
    struct address address;
    int r = read_address(call, &address);
    if (r < 0) {
        return r;
    }
    if (address.any.sa_family != AF_UNIX) {
        return address.any.sa_family == AF_INET ? -EACCES : -EINVAL;
    }
    r = check_local(&address);
    int flags = r < 0 ? r : socket_flags(call);
    if (flags < 0) {
        return flags;
    }
    defer_close int here_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    defer_close int there_fd = caller_look(call, "cwd", O_PATH);
    defer_close int made_fd = make_socket();
    if (here_fd < 0 || there_fd < 0 || made_fd < 0 || fchdir(there_fd) < 0) {
        return -EACCES;
    }
    r = bind(made_fd, &address.any, address.size) < 0 ? -errno : 0;
    return fchdir(here_fd) < 0 || r < 0 ? r : replace(call, flags, made_fd);
}

/* Connections of this network namespace that are not yet accepted: a socket in state 2 without an
 * inode (unix_seq_show() in net/unix/af_unix.c). */
static unsigned count_unaccepted(void)
{
    char line[512];
    unsigned count = 0;
    defer_fclose FILE *file = fopen("/proc/self/net/unix", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *state = strtok(line, " ");
        for (int i = 0; state && i < 5; i++) {
            state = strtok(NULL, " ");
        }
        const char *inode = state ? strtok(NULL, " ") : NULL;
        count += inode && strtoul(state, NULL, 16) == 2 && strtoul(inode, NULL, 10) == 0;
    }
    return count;
}

/* Whether the guest may have one more. Assumes that others always have at least the lowest number
 * seen. */
static bool has_space(void)
{
    static unsigned least = UINT_MAX;
    unsigned count = count_unaccepted();
    least = count < least ? count : least;
    return count - least < UNACCEPTED;
}

/* Connects a new socket to the held object, replaces the descriptor. -EAGAIN: the queue is full. */
static long connect_held(const struct notify_call *call, int flags, const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(name) >= sizeof to.sun_path) {
        return -ENAMETOOLONG;
    }
    memcpy(to.sun_path, name, strlen(name));
    if (!has_space()) {
        return -EAGAIN;
    }
    defer_close int made_fd = make_socket();
    if (made_fd < 0) {
        return made_fd;
    }
    if (connect(made_fd, (const struct sockaddr *)&to, sizeof to) < 0) {
        return -errno;
    }
    return replace(call, flags, made_fd);
}

static void arm(const struct notify *notify)
{
    const struct itimerspec when = {.it_value.tv_nsec = notify->waiting_count ? RETRY_NS : 0};
    (void)timerfd_settime(notify->timer_fd, 0, &when, NULL);
}

static void forget(struct notify *notify, struct notify_waiting *waiting)
{
    drop_fd(&waiting->to_fd);
    notify->waiting_count--;
}

/* Responds later, when there is space. to_fd: taken. */
static long wait_for_space(const struct notify_call *call, int to_fd)
{
    struct notify *notify = call->notify;
    for (unsigned i = 0; i < NOTIFY_WAITING; i++) {
        struct notify_waiting *waiting = &notify->waiting[i];
        if (waiting->to_fd < 0) {
            *waiting = (struct notify_waiting){*call, to_fd};
            notify->waiting_count++;
            arm(notify);
            return NOTIFY_LATER;
        }
    }
    (void)close(to_fd);
    return -EAGAIN;
}

static long connect_local(const struct notify_call *call, const struct address *address)
{
    char name[HELD_NAME];
    struct stat st;
    int r = check_local(address);
    int flags = r < 0 ? r : socket_flags(call);
    if (flags < 0) {
        return flags;
    }
    defer_close int to_fd =
        caller_open(call, AT_FDCWD, address->local.sun_path, /* nofollow= */ false);
    if (to_fd < 0) {
        return to_fd;
    }
    if (!notify_is_in_place(call->notify, to_fd)) {
        return -EPERM;
    }
    if (fstat(to_fd, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return -ECONNREFUSED;
    }
    long result = connect_held(call, flags, held_name(to_fd, name));
    return result == -EAGAIN && !(flags & O_NONBLOCK) ? wait_for_space(call, take_fd(&to_fd))
                                                      : result;
}

static long connect_inet(const struct notify_call *call, const struct address *address)
{
    const char *egress = call->notify->settings.egress_path;
    if (address->size < sizeof address->inet) {
        return -EINVAL;
    }
    if (!egress || !*egress || address->inet.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) {
        return -ENETUNREACH;
    }
    if (address->inet.sin_port != htons(EGRESS_PROXY_PORT)) {
        return -ECONNREFUSED;
    }
    int flags = socket_flags(call);
    if (flags < 0) {
        return flags;
    }
    /* TCP has no error for a full queue, and most nonblocking programs (those with a time limit,
     * say) cannot handle one. So they wait, too, for the short time that the egress proxy needs. */
    long result = connect_held(call, flags, egress);
    if (result == -EAGAIN) {
        int to_fd = open(egress, O_PATH | O_CLOEXEC);
        return to_fd < 0 ? -errno : wait_for_space(call, to_fd);
    }
    return result;
}

static long handle_connect(const struct notify_call *call)
{
    struct address address;
    int r = read_address(call, &address);
    if (r < 0) {
        return r;
    }
    switch (address.any.sa_family) {
    case AF_UNIX:
        return connect_local(call, &address);
    case AF_INET:
        return connect_inet(call, &address);
    default:
        return -EINVAL;
    }
}

void sockets_retry(struct notify *notify)
{
    char name[HELD_NAME];
    for (unsigned i = 0; i < NOTIFY_WAITING; i++) {
        struct notify_waiting *waiting = &notify->waiting[i];
        if (waiting->to_fd < 0) {
            continue;
        }
        const struct notify_call *call = &waiting->call;
        int flags = socket_flags(call);
        long result =
            flags < 0 ? flags : connect_held(call, flags, held_name(waiting->to_fd, name));
        if (result != -EAGAIN) {
            notify_respond(call, result);
            forget(notify, waiting);
        }
    }
    arm(notify);
}

void sockets_forget(struct notify *notify, int listener_fd)
{
    for (unsigned i = 0; i < NOTIFY_WAITING; i++) {
        if (notify->waiting[i].to_fd >= 0 && notify->waiting[i].call.listener_fd == listener_fd) {
            forget(notify, &notify->waiting[i]);
        }
    }
}

const struct notify_handler notify_handlers_of_files[] = {
#ifdef SYS_utime
    {SYS_chmod, handle_chmod},         {SYS_utime, handle_utime},
    {SYS_utimes, handle_utimes},       {SYS_futimesat, handle_futimesat},
#endif
    {SYS_fchmod, handle_chmod},        {SYS_fchmodat, handle_chmod},
    {SYS_utimensat, handle_utimensat}, {SYS_truncate, handle_truncate},
    {SYS_socket, handle_socket},       {SYS_bind, handle_bind},
    {SYS_connect, handle_connect},     {},
};
