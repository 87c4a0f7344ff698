#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/programs/common/proc.h"
#include "sandbox/programs/init/supervisor/notify_call.h"

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

pid_t caller_process(pid_t tid)
{
    char text[512]; /* the fourth line has it, proc(5) */
    size_t size = read_proc(tid, "status", text, sizeof text);
    return size > 0 ? (pid_t)parse_field(text, "Tgid:", 0) : 0;
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
