#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

enum { FD_FIRST_HIGH = 10 };

int fd_move_high(int fd)
{
    if (fd >= FD_FIRST_HIGH) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST_HIGH);
    if (moved < 0) {
        return -errno;
    }
    (void)close(fd);
    return moved;
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
    int fds[2] = {-1, -1};
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0) {
        return -errno;
    }
    ret_fds[0] = fds[0];
    ret_fds[1] = fds[1];
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

int fd_write_text_at(int dir_fd, const char *path, const char *text)
{
    defer_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    ssize_t n = write(fd, text, strlen(text));
    return n < 0 ? -errno : 0;
}
