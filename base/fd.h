#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Closes the open descriptors first … last. For a child before it executes: exits where the call is
 * refused. */
void fd_close_range(unsigned first, unsigned last);
/* The same for all from first on but the count kept ones, in any order; -1: none. */
void fd_close_others(unsigned first, const int *kept, size_t count);
/* Whether the kernel has the call and no filter refuses it: it checks these arguments first. */
bool fd_may_close_range(void);

/* openat(2) with O_CLOEXEC and O_NOCTTY that passes through no magic link of /proc: -ELOOP. Follows
 * plain symlinks, unless flags has O_NOFOLLOW. Returns the descriptor or -errno. */
int fd_open_named(int dir_fd, const char *path, int flags, mode_t mode);
/* Opens path ("": root_fd itself) below root_fd, through no symlink. Returns the descriptor or
 * -errno. */
int fd_open_beneath(int root_fd, const char *path, int flags);

/* Opens a path that holds no symlink: somebody may have put one there since it was
 * checked. Else -ELOOP. Returns the descriptor or -errno. */
int fd_open_straight(const char *path, int flags);

/* 0 or -errno. */
int fd_set_nonblock(int fd, bool on);

/* Unix stream socket pair, close-on-exec; both ends >= 3. 0 or -errno. */
int fd_socketpair(int type, int ret_fds[2]);

/* Pipe, close-on-exec. 0, or -errno without any change. */
int fd_pipe(int *ret_read_fd, int *ret_write_fd);

/* Writes all of it, also after short writes and EINTR; for blocking descriptors. 0 or -errno. */
int fd_write_all(int fd, const void *bytes, size_t size);

/* What has been written to a file is on its disk before that goes on, with all errors that would
 * come later, as those of close(2) on network file systems: 0 or -errno. */
int fd_flush(int fd);
/* Of many files of one file system, opened before they were written to: brings all of that to its
 * disk at once, with what other programs have written. Whether fd_flushed() does for each then. */
bool fd_flush_all(int one_fd);
/* The errors of one of them: 0 or -errno. */
int fd_flushed(int fd);

/* Writes what is left of from_fd to to_fd; by one thread at a time. 0 or -errno. */
int fd_copy_all(int from_fd, int to_fd);

/* Reads up to size bytes at offset of a regular file, also after short reads and EINTR. Returns how
 * many it read, fewer only at the end of the file, or -errno. */
ssize_t fd_pread_all(int fd, void *bytes, size_t size, uint64_t offset);

/* Reads a small file (of /proc, /sys) whole into text, followed by a NUL. Returns its length,
 * -E2BIG when it does not fit, or -errno. dir_fd as in openat(2). */
int fd_read_text_at(int dir_fd, const char *path, char *text, size_t size);

/* The kernel's path of what fd holds, followed by a NUL; path: PATH_MAX bytes. Needs /proc. 0 or
 * -errno. */
int fd_path(int fd, char *path);

/* Whether somebody has the regular file open for writing, or mapped so: by a lease, which can be
 * had only of one that nobody writes to, fcntl(2). fd: open for reading. 1, 0, or -errno: that
 * cannot be known, of another user's file or where the file system has no leases. The process must
 * ignore SIGIO. */
int fd_is_written(int fd);
/* The same of a name in a directory, which is not followed. mode: its st_mode; 0 unless that is of
 * a regular file that can be read. */
int fd_is_written_at(int dir_fd, const char *name, mode_t mode);
/* As above: whether it is open at all, apart from fd. */
int fd_is_open(int fd);

/* A directory's stream, which owns fd. NULL with errno, and fd is closed; fd < 0: errno is kept. */
DIR *fd_directory(int fd);
/* One for the directory that dir_fd holds, which it does not own and whose position stays. */
DIR *fd_entries(int dir_fd);
/* The name of the directory's next entry, never "." or "..": valid until the next call. NULL: there
 * is none (errno 0), it could not be read (errno), or dir is NULL. */
const char *fd_next_name(DIR *dir);
/* The same for names that are decimal numbers, as in /proc; -1: there is none. */
int fd_next_number(DIR *dir);

/* Opens path for writing (never creates it) and writes text in one write. 0 or -errno. */
int fd_write_text_at(int dir_fd, const char *path, const char *text);
