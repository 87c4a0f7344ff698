#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/own.h"
#include "base/parse.h"

void fd_close_range(unsigned first, unsigned last)
{
    if (syscall(SYS_close_range, first, last, 0) < 0) {
        _exit(1);
    }
}

void fd_close_others(unsigned first, const int *kept, size_t count)
{
    for (;;) {
        unsigned next = ~0U; /* the lowest kept one from first on */
        for (size_t i = 0; i < count; i++) {
            if (kept[i] >= 0 && (unsigned)kept[i] >= first && (unsigned)kept[i] < next) {
                next = (unsigned)kept[i];
            }
        }
        if (next > first) {
            fd_close_range(first, next == ~0U ? next : next - 1);
        }
        if (next == ~0U) {
            return;
        }
        first = next + 1;
    }
}

bool fd_may_close_range(void)
{
    return syscall(SYS_close_range, 1, 0, 0) < 0 && errno == EINVAL;
}

enum { ATTEMPTS = 100 }; /* to open a file while other processes rename theirs */

static int open_resolving(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = resolve};
    int fd = -1;
    unsigned attempts = 0;
    /* A rename anywhere at that moment may be taken for one of the path's directories, openat2(2).
     */
    do {
        fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    } while (fd < 0 && errno == EAGAIN && ++attempts < ATTEMPTS);
    return fd < 0 ? -errno : fd;
}

int fd_open_named(int dir_fd, const char *path, int flags, mode_t mode)
{
    /* O_PATH only marks the place, and openat2 refuses flags that mean more. */
    return open_resolving(dir_fd, path, flags & O_PATH ? flags : flags | O_NOCTTY, mode,
                          RESOLVE_NO_MAGICLINKS);
}

int fd_open_beneath(int root_fd, const char *path, int flags)
{
    return open_resolving(root_fd, *path ? path : ".", flags | O_NOFOLLOW, /* mode= */ 0,
                          RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int fd_open_straight(const char *path, int flags)
{
    return open_resolving(AT_FDCWD, path, flags, /* mode= */ 0, RESOLVE_NO_SYMLINKS);
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
        ssize_t n = TEMP_FAILURE_RETRY(write(fd, p, size));
        if (n < 0) {
            return -errno;
        }
        p += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Network file systems write at each close, whichever descriptor it is of. */
static int close_another(int fd)
{
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return other < 0 || close(other) < 0 ? -errno : 0;
}

int fd_flush(int fd)
{
    if (fsync(fd) < 0 && errno != EINVAL) { /* the file system has no such thing, fsync(2) */
        return -errno;
    }
    return close_another(fd);
}

bool fd_flush_all(int one_fd)
{
    struct statfs fs;
    /* Those which are known to report the errors of each file later. */
    bool is_known = fstatfs(one_fd, &fs) == 0 &&
                    (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
                     fs.f_type == BTRFS_SUPER_MAGIC);
    return is_known && syncfs(one_fd) == 0;
}

int fd_flushed(int fd)
{
    /* The errors that writing it back has met, sync_file_range(2): nothing is left to write. */
    return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) < 0 ? -errno : close_another(fd);
}

int fd_copy_all(int from_fd, int to_fd)
{
    static char bytes[1 << 17];
    ssize_t size = 0;
    int r = 0;
    while (r == 0 && (size = read(from_fd, bytes, sizeof bytes)) > 0) {
        r = fd_write_all(to_fd, bytes, (size_t)size);
    }
    return r == 0 && size < 0 ? -errno : r;
}

ssize_t fd_pread_all(int fd, void *bytes, size_t size, uint64_t offset)
{
    size_t have = 0;
    ssize_t n = 1;
    while (have < size && n > 0) {
        char *at = (char *)bytes + have;
        n = TEMP_FAILURE_RETRY(pread(fd, at, size - have, (off_t)(offset + have)));
        have += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? -errno : (ssize_t)have;
}

int fd_read_text_at(int dir_fd, const char *path, char *text, size_t size)
{
    defer_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    size_t have = 0;
    ssize_t n = 1;
    while (have < size && n > 0) {
        n = TEMP_FAILURE_RETRY(read(fd, text + have, size - have));
        have += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        return -errno;
    }
    if (have == size) {
        return -E2BIG;
    }
    text[have] = '\0';
    return (int)have;
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

DIR *fd_entries(int dir_fd)
{
    return fd_directory(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

const char *fd_next_name(DIR *dir)
{
    const struct dirent *entry = NULL;
    errno = 0;
    do {
        entry = dir ? readdir(dir) : NULL;
    } while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry ? entry->d_name : NULL;
}

int fd_next_number(DIR *dir)
{
    const char *name = NULL;
    uint64_t number = 0;
    while ((name = fd_next_name(dir)) && parse_u64(name, &number) < 0) {
    }
    return name ? (int)number : -1;
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
