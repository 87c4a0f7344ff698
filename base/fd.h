#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Duplicates fd to the lowest free number >= 10 with close-on-exec, closes the old one.
 * Numbers below 10 stay free for what a child expects at 0, 1, 2. Returns the number or -errno. */
int fd_move_high(int fd);

/* Closes what is open of the numbers first … last. Allocates nothing: for a child before execve too. */
void fd_close_range(unsigned first, unsigned last);

/* 0 or -errno. */
int fd_set_nonblock(int fd, bool on);

/* Unix stream socket pair, close-on-exec; both ends >= 3. 0 or -errno. */
int fd_socketpair(int type, int ret_fds[2]);

/* Writes all of it, also after short writes and EINTR; for blocking descriptors. 0 or -errno. */
int fd_write_all(int fd, const void *bytes, size_t size);

/* Reads up to size bytes at offset of a regular file, also after short reads and EINTR. Returns how many
 * there were, fewer only at the end of the file, or -errno. */
ssize_t fd_pread_all(int fd, void *bytes, size_t size, uint64_t offset);

/* Reads a small file (of /proc, /sys) whole into text with a NUL behind it. Returns its length,
 * -E2BIG when it does not fit, or -errno. dir_fd as in openat(2). */
int fd_read_text_at(int dir_fd, const char *path, char *text, size_t size);

/* Where the kernel says that what fd holds lies, with a NUL behind it; path: PATH_MAX bytes. Needs /proc. 0 or
 * -errno. */
int fd_path(int fd, char *path);
/* Whether that is path itself, to which no link leads. Nobody changes it between the look and the use. */
bool fd_is_at(int fd, const char *path);

/* Opens path for writing (never creating it) and writes text in one write. 0 or -errno. */
int fd_write_text_at(int dir_fd, const char *path, const char *text);
