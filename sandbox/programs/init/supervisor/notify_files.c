#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "base/own.h"
#include "sandbox/programs/init/supervisor/notify_call.h"

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

static long change_mode(int object_fd, uint64_t mode)
{
    char name[HELD_NAME];
    defer_close int fd = object_fd;
    if (fd < 0) {
        return fd;
    }
    return chmod(held_name(fd, name), (mode_t)mode & MODE_BITS) < 0 ? -errno : 0;
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

long handle_chmod(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return change_mode(check_path(call, AT_FDCWD, a[0], /* nofollow= */ false), a[1]);
}

long handle_fchmod(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return change_mode(check_descriptor(call, a[0]), a[1]);
}

long handle_fchmodat(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return change_mode(check_path(call, (int)a[0], a[1], /* nofollow= */ false), a[2]);
}

long handle_utime(const struct notify_call *call)
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

/* futimesat(2). Without a path dir_number may be a file's. */
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
    int fd = !path && dir_number != AT_FDCWD
                 ? check_descriptor(call, (uint64_t)dir_number)
                 : check_path(call, dir_number, path, /* nofollow= */ false);
    return change_times(fd, address ? times : NULL);
}

long handle_utimes(const struct notify_call *call)
{
    return change_by_timeval(call, AT_FDCWD, call->arguments[0], call->arguments[1]);
}

long handle_futimesat(const struct notify_call *call)
{
    const uint64_t *a = call->arguments;
    return change_by_timeval(call, (int)a[0], a[1], a[2]);
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

long handle_utimensat(const struct notify_call *call)
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

long handle_truncate(const struct notify_call *call)
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
