#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

enum { FD_LAST_TRIED = 65535 };

/* A descriptor's number as /proc/self/fd names it; false for "." and "..". */
static bool parse_number(const char *name, unsigned *ret_number)
{
    unsigned number = 0;
    const char *at = name;
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (unsigned)(*at - '0');
    }
    *ret_number = number;
    return at != name && !*at;
}

/* Closes what /proc lists. The kernel lists the numbers upwards, so closing some on the way makes
 * it skip none. Returns whether there was a list. */
static bool close_listed(unsigned first, unsigned last)
{
    _Alignas(struct dirent64) static char entries[4096];
    defer_close int dir_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return false;
    }
    ssize_t size = 0;
    while ((size = (ssize_t)syscall(SYS_getdents64, dir_fd, entries, sizeof entries)) > 0) {
        const struct dirent64 *entry = NULL;
        for (ssize_t at = 0; at < size; at += entry->d_reclen) {
            unsigned fd = 0;
            entry = (const struct dirent64 *)(const void *)(entries + at);
            if (parse_number(entry->d_name, &fd) && fd >= first && fd <= last &&
                fd != (unsigned)dir_fd) {
                (void)close((int)fd);
            }
        }
    }
    return size == 0;
}

void fd_close_range(unsigned first, unsigned last)
{
    /* Since Linux 5.9; some containers' filters refuse it. */
    if (syscall(SYS_close_range, first, last, 0) == 0 || close_listed(first, last)) {
        return;
    }
    for (unsigned fd = first; fd <= last && fd <= FD_LAST_TRIED; fd++) {
        (void)close((int)fd);
    }
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -errno;
    }
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_socketpair(int type, int ret_fds[2])
{
    return socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

int fd_pipe(int *ret_read_fd, int *ret_write_fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return -errno;
    }
    *ret_read_fd = fds[0];
    *ret_write_fd = fds[1];
    return 0;
}

int fd_write_all(int fd, const void *bytes, size_t size)
{
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t fd_pread_all(int fd, void *bytes, size_t size, uint64_t offset)
{
    size_t have = 0;
    while (have < size) {
        ssize_t n = pread(fd, (char *)bytes + have, size - have, (off_t)(offset + have));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int fd_read_text_at(int dir_fd, const char *path, char *text, size_t size)
{
    defer_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, text + have, size - have);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        if (n == 0) {
            text[have] = '\0';
            return (int)have;
        }
        have += (size_t)n;
        if (have == size) {
            return -E2BIG;
        }
    }
}

int fd_path(int fd, char *path)
{
    char name[32];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, PATH_MAX - 1);
    if (size < 0) {
        return -errno;
    }
    path[size] = '\0';
    return size < PATH_MAX - 1 ? 0 : -ENAMETOOLONG;
}

bool fd_is_at(int fd, const char *path)
{
    char real[PATH_MAX];
    return fd_path(fd, real) == 0 && strcmp(real, path) == 0;
}

static int conflicts(int fd, int lease)
{
    int r = fcntl(fd, F_SETLEASE, lease) == 0 ? 0 : errno == EAGAIN ? 1 : -errno;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return r;
}

int fd_is_written(int fd)
{
    return conflicts(fd, F_RDLCK);
}

int fd_is_written_at(int dir_fd, const char *name, mode_t mode)
{
    defer_close int fd =
        S_ISREG(mode) ? openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    return fd < 0 ? 0 : fd_is_written(fd);
}

int fd_is_open(int fd)
{
    return conflicts(fd, F_WRLCK);
}

DIR *fd_directory(int fd)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        own_close(&fd);
    }
    return dir;
}

int fd_write_text_at(int dir_fd, const char *path, const char *text)
{
    defer_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n = write(fd, text, strlen(text));
    return n < 0 ? -errno : 0;
}
