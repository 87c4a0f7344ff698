#include "sandbox/programs/common/content.h"

#include <errno.h>
#include <linux/limits.h> /* XATTR_LIST_MAX */
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"

enum { PIECE_BYTES = 256 << 10 };

static char pieces[2][PIECE_BYTES];

/* Where a file has data, at or after offset; size: nowhere. A file system that knows no holes says
 * that all is data, lseek(2). */
static uint64_t data_after(int fd, uint64_t offset, uint64_t size)
{
    off_t at = lseek(fd, (off_t)offset, SEEK_DATA);
    if (at < 0) {
        return errno == ENXIO ? size : offset;
    }
    return (uint64_t)at < size ? (uint64_t)at : size;
}

static size_t piece_at(uint64_t offset, uint64_t size)
{
    return size - offset < PIECE_BYTES ? (size_t)(size - offset) : PIECE_BYTES;
}

int content_equal(int one_fd, int other_fd, uint64_t size)
{
    for (uint64_t offset = 0; offset < size;) {
        uint64_t one = data_after(one_fd, offset, size);
        uint64_t other = data_after(other_fd, offset, size);
        offset = one < other ? one : other;
        size_t piece = piece_at(offset, size);
        ssize_t got = fd_pread_all(one_fd, pieces[0], piece, offset);
        ssize_t got_other = fd_pread_all(other_fd, pieces[1], piece, offset);
        if (got < 0 || got_other < 0) {
            return (int)(got < 0 ? got : got_other);
        }
        if ((size_t)got != piece || (size_t)got_other != piece ||
            memcmp(pieces[0], pieces[1], piece) != 0) {
            return 0;
        }
        offset += piece;
    }
    return 1;
}

enum {
    BLOCK_BYTES = 4096,
    HOLE_PART = 512 /* a page has 8 bytes in the page tables once it is read */
};

/* The block in which the next data is; size: there is none. */
static uint64_t block_after(int fd, uint64_t offset, uint64_t size)
{
    uint64_t data = offset < size ? data_after(fd, offset, size) : size;
    return data < size ? data / BLOCK_BYTES * BLOCK_BYTES : size;
}

/* A block that is all zero counts as a hole. */
static void hash_block(struct siphash *hash, uint64_t offset, const char block[BLOCK_BYTES])
{
    static const char zeros[BLOCK_BYTES];
    if (memcmp(block, zeros, BLOCK_BYTES) != 0) {
        siphash_add(hash, &offset, sizeof offset);
        siphash_add(hash, block, BLOCK_BYTES);
    }
}

static uint64_t hash_end(struct siphash *hash, uint64_t size)
{
    siphash_add(hash, &size, sizeof size);
    uint64_t sum = siphash_sum(hash);
    return sum + (sum == 0);
}

uint64_t content_hash_bytes(const char *bytes, uint64_t size, const uint64_t key[2])
{
    struct siphash hash;
    siphash_init(&hash, key);
    for (uint64_t offset = 0; offset < size; offset += BLOCK_BYTES) {
        char block[BLOCK_BYTES] = {};
        memcpy(block, bytes + offset, size - offset < BLOCK_BYTES ? size - offset : BLOCK_BYTES);
        hash_block(&hash, offset, block);
    }
    return hash_end(&hash, size);
}

int content_hash(int fd, uint64_t size, const uint64_t key[2], uint64_t *ret_hash)
{
    struct siphash hash;
    siphash_init(&hash, key);
    for (uint64_t offset = block_after(fd, 0, size); offset < size;
         offset = block_after(fd, offset + BLOCK_BYTES, size)) {
        char block[BLOCK_BYTES] = {};
        size_t part = size - offset < BLOCK_BYTES ? (size_t)(size - offset) : BLOCK_BYTES;
        ssize_t got = fd_pread_all(fd, block, part, offset);
        if (got < 0) {
            return (int)got;
        }
        hash_block(&hash, offset, block);
    }
    *ret_hash = hash_end(&hash, size);
    return 0;
}

int content_load(int fd, uint64_t size, char *bytes, uint64_t most, uint64_t *ret_data)
{
    uint64_t data = 0;
    for (uint64_t offset = data_after(fd, 0, size); offset < size;
         offset = data_after(fd, offset, size)) {
        off_t hole = lseek(fd, (off_t)offset, SEEK_HOLE);
        uint64_t end = hole > (off_t)offset && (uint64_t)hole < size ? (uint64_t)hole : size;
        size_t piece = piece_at(offset, end);
        data += piece;
        if (data > most) {
            return -ENOSPC;
        }
        ssize_t got = fd_pread_all(fd, bytes + offset, piece, offset);
        if (got < (ssize_t)piece) {
            return got < 0 ? (int)got : 1;
        }
        offset += piece;
    }
    *ret_data = data + (size - data) / HOLE_PART;
    return *ret_data > most ? -ENOSPC : 0;
}

static int write_at(int fd, const char *bytes, size_t size, uint64_t offset)
{
    while (size > 0) {
        ssize_t written = pwrite(fd, bytes, size, (off_t)offset);
        if (written < 0 && errno != EINTR) {
            return -errno;
        }
        size_t done = written < 0 ? 0 : (size_t)written;
        bytes += done;
        offset += done;
        size -= done;
    }
    return 0;
}

int content_store(int fd, const char *bytes, uint64_t size)
{
    static const char zeros[BLOCK_BYTES];
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_size > 0) { /* what is there keeps its blocks until the end */
        int written = write_at(fd, bytes, size, 0);
        return written ? written : ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    }
    int r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
    uint64_t from = 0; /* not yet written */
    for (uint64_t at = 0; r == 0 && at < size;) {
        size_t block = size - at < BLOCK_BYTES ? (size_t)(size - at) : BLOCK_BYTES;
        bool is_hole = memcmp(bytes + at, zeros, block) == 0;
        size_t part = (size_t)(at - from) + (is_hole ? 0 : block);
        at += block;
        if (is_hole || part >= PIECE_BYTES || at == size) {
            r = write_at(fd, bytes + from, part, from);
            from = at;
        }
    }
    return r;
}

int content_copy(int from_fd, int to_fd, uint64_t size, bool (*is_wanted)(void))
{
    if (ftruncate(to_fd, (off_t)size) < 0) {
        return -errno;
    }
    for (uint64_t offset = data_after(from_fd, 0, size); offset < size;
         offset = data_after(from_fd, offset, size)) {
        size_t piece = piece_at(offset, size);
        ssize_t got = is_wanted() ? fd_pread_all(from_fd, pieces[0], piece, offset) : -EINTR;
        if (got <= 0) {
            return got < 0 ? (int)got : 1; /* it has become shorter */
        }
        int r = write_at(to_fd, pieces[0], (size_t)got, offset);
        if (r < 0) {
            return r;
        }
        offset += (uint64_t)got;
    }
    return 0;
}

/* The kernel has no longer lists and values, listxattr(2): a file system's is E2BIG. */
static char names[XATTR_LIST_MAX];
static char values[2][XATTR_SIZE_MAX];

static bool is_own(const char *name)
{
    static const char user[] = "user.";
    static const char overlay[] = "user.overlay.";
    return strncmp(name, user, sizeof user - 1) == 0 &&
           strncmp(name, overlay, sizeof overlay - 1) != 0;
}

static bool is_none(int error)
{
    return error == ENODATA || error == EOPNOTSUPP;
}

static int find(int fd, const char *name,
                int (*found)(void *arg, const char *name, const void *value, size_t size),
                void *arg)
{
    ssize_t size = fgetxattr(fd, name, values[0], sizeof values[0]);
    if (size < 0) {
        return is_none(errno) ? 0 : -errno;
    }
    return found(arg, name, values[0], (size_t)size);
}

int attributes_each(int fd,
                    int (*found)(void *arg, const char *name, const void *value, size_t size),
                    void *arg)
{
    ssize_t size = flistxattr(fd, names, sizeof names);
    int r = size < 0 && !is_none(errno) ? -errno : 0;
    for (const char *name = names; r == 0 && name < names + size; name += strlen(name) + 1) {
        r = is_own(name) ? find(fd, name, found, arg) : 0;
    }
    return r ? r : find(fd, ATTRIBUTES_ACL, found, arg); /* some lists leave it out */
}

int attributes_set(int fd, const char *name, const void *value, size_t size)
{
    if (fsetxattr(fd, name, value, size, 0) == 0) {
        return 0;
    }
    /* An access control list that names users whom the sandbox does not know cannot be set. */
    int error = errno;
    bool has = fgetxattr(fd, name, values[1], sizeof values[1]) == (ssize_t)size &&
               memcmp(value, values[1], size) == 0;
    return has ? 0 : -error;
}

bool attributes_has_acl(int fd)
{
    return fgetxattr(fd, ATTRIBUTES_ACL, NULL, 0) >= 0 || !is_none(errno);
}

int attributes_remove_acl(int fd)
{
    return fremovexattr(fd, ATTRIBUTES_ACL) == 0 || is_none(errno) ? 0 : -errno;
}

struct copying {
    int to_fd;
    bool has_acl;
};

static int copy_one(void *arg, const char *name, const void *value, size_t size)
{
    struct copying *copying = arg;
    copying->has_acl = copying->has_acl || strcmp(name, ATTRIBUTES_ACL) == 0;
    return attributes_set(copying->to_fd, name, value, size);
}

int attributes_copy(int from_fd, int to_fd)
{
    struct copying copying = {.to_fd = to_fd};
    int r = attributes_each(from_fd, copy_one, &copying);
    r = r || copying.has_acl ? r : attributes_remove_acl(to_fd);
    return r ? -EOPNOTSUPP : 0;
}

void content_times(int64_t mtime_ns, struct timespec ret_times[2])
{
    const int64_t second = 1000000000;
    int64_t rest = (mtime_ns % second + second) % second; /* before 1970 too */
    ret_times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ret_times[1] = (struct timespec){.tv_sec = (mtime_ns - rest) / second, .tv_nsec = rest};
}
