#pragma once
#include <stdbool.h>
#include <stddef.h>
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

/* The extended attributes of a file that its owner gives it: the user's, xattr(7), and its access
 * control list, acl(5). By one thread at a time; without a heap. */

#define ATTRIBUTES_ACL "system.posix_acl_access"

/* Calls found for each of them until it fails. None where the file system has none. 0, what found
 * has returned, or -errno: one cannot be read. */
int attributes_each(int fd,
                    int (*found)(void *arg, const char *name, const void *value, size_t size),
                    void *arg);
/* Sets one. 0, also where the file has it already, or -errno. */
int attributes_set(int fd, const char *name, const void *value, size_t size);
/* Whether a file has an access control list, or may have one. */
bool attributes_has_acl(int fd);
/* Removes the access control list that a new file has from its directory. 0 or -errno. */
int attributes_remove_acl(int fd);
/* Gives a new file all that another one has. 0; -EOPNOTSUPP: it has not got all of them. */
int attributes_copy(int from_fd, int to_fd);
