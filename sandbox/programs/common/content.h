#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Contents of regular files. */

/* Whether both have the same bytes. 1, 0 or -errno. */
int content_equal(int one_fd, int other_fd, uint64_t size);
/* The hash of a file's content, whatever is a hole in it and what is zero: 0 or -errno. */
int content_hash(int fd, uint64_t size, const uint64_t key[2], uint64_t *ret_hash);
/* The same of bytes. Never 0. */
uint64_t content_hash_bytes(const char *bytes, uint64_t size, const uint64_t key[2]);
/* Reads a file of that size into memory that is zero, which its holes do not touch. *ret_data:
 * what it takes. 0; 1: it has become shorter; -ENOSPC: it has more data than most; or -errno.
 */
int content_load(int fd, uint64_t size, char *bytes, uint64_t most, uint64_t *ret_data);
/* Makes it the content of the file; what is zero, by the block, becomes holes. 0 or -errno. */
int content_store(int fd, const char *bytes, uint64_t size);
/* Copies into an empty file; holes stay holes. 0; 1: it has become shorter; or -errno; -EINTR: no
 * longer wanted */
int content_copy(int from_fd, int to_fd, uint64_t size, bool (*is_wanted)(void));
/* For futimens(2), of a time of modification. */
void content_times(int64_t mtime_ns, struct timespec ret_times[2]);
