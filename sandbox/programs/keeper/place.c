/* Files by their paths below a directory: looks, copies, replaces. Code can change all of it at
 * any moment, so each path is opened from the directory down without following a symlink. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/keeper/keeper.h"

enum { NS_PER_S = 1000000000, COPY_BYTES = 1 << 17, PERMISSIONS = 0777 };

/* --- opening --- */

/* Where openat2(2), of Linux 5.6, is missing. */
static int open_by_parts(int root_fd, const char *path, int flags)
{
    char name[NAME_MAX + 1];
    int at = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        size_t size = strcspn(path, "/");
        bool last = !path[size];
        if (size >= sizeof name) {
            (void)close(at);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, size);
        name[size] = '\0';
        int next = openat(at, size > 0 ? name : ".",
                          last ? flags | O_NOFOLLOW | O_CLOEXEC
                               : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        (void)close(at);
        if (last || next < 0) {
            return next < 0 ? -error : next;
        }
        at = next;
        path += size + 1;
    }
    return -errno;
}

int place_open(int root_fd, const char *path, int flags)
{
    static bool missing;
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    if (!missing) {
        int fd = (int)syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof how);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return fd < 0 ? -errno : fd;
        }
        missing = errno == ENOSYS;
    }
    return open_by_parts(root_fd, path, flags);
}

int place_parent(int root_fd, const char *path, const char **ret_name)
{
    char text[KEEPER_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    *ret_name = slash ? slash + 1 : path;
    if (size >= sizeof text) {
        return -ENAMETOOLONG;
    }
    memcpy(text, path, size);
    text[size] = '\0';
    return place_open(root_fd, text, O_PATH | O_DIRECTORY);
}

/* --- looking --- */

void facts_of_stat(const struct stat *st, struct apply_facts *ret_facts)
{
    *ret_facts = apply_facts_of(st);
    ret_facts->bytes = S_ISDIR(st->st_mode) ? 0 : ret_facts->bytes;
}

/* Of directories only what they are: what is in them has facts of its own. */
bool facts_equal(const struct apply_facts *one, const struct apply_facts *other)
{
    if (S_ISDIR(one->mode) || one->mode == 0) {
        return one->mode == other->mode;
    }
    return one->mode == other->mode && one->inode == other->inode && one->bytes == other->bytes &&
           one->ctime_ns == other->ctime_ns && one->mtime_ns == other->mtime_ns;
}

int place_look(int root_fd, const char *path, struct apply_facts *ret_facts, unsigned *ret_links)
{
    const char *name = NULL;
    struct stat st;
    *ret_facts = (struct apply_facts){};
    defer_close int dir_fd = place_parent(root_fd, path, &name);
    if (dir_fd < 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        int error = dir_fd < 0 ? -dir_fd : errno;
        /* Something else stands where its directory was. */
        return error == ENOENT || error == ENOTDIR || error == ELOOP ? 0 : -error;
    }
    facts_of_stat(&st, ret_facts);
    if (ret_links) {
        *ret_links = (unsigned)st.st_nlink;
    }
    return 0;
}

/* --- reading --- */

static bool still(int fd, const struct apply_facts *facts)
{
    struct stat st;
    struct apply_facts have;
    if (fstat(fd, &st) < 0) {
        return false;
    }
    facts_of_stat(&st, &have);
    return facts_equal(&have, facts);
}

static bool read_file(int root_fd, const char *path, const struct apply_facts *facts, char *data)
{
    defer_close int fd = place_open(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd >= 0 && still(fd, facts) &&
           fd_pread_all(fd, data, facts->bytes, 0) == (ssize_t)facts->bytes && still(fd, facts);
}

static bool read_link(int root_fd, const char *path, uint64_t size, char *data)
{
    const char *name = NULL;
    defer_close int dir_fd = place_parent(root_fd, path, &name);
    return dir_fd >= 0 && readlinkat(dir_fd, name, data, size + 1) == (ssize_t)size;
}

bool place_content(int root_fd, const char *path, const struct apply_facts *facts, char *data)
{
    return S_ISLNK(facts->mode) ? read_link(root_fd, path, facts->bytes, data)
                                : read_file(root_fd, path, facts, data);
}

struct version *place_read(struct keeper *keeper, int root_fd, const char *path,
                           const struct apply_facts *facts)
{
    struct version *version = version_of(facts);
    bool has_data = version && (version->kind == KIND_FILE || version->kind == KIND_LINK);
    if (!has_data || facts->bytes > keeper->limit_bytes - keeper->used_bytes) {
        return version;
    }
    version->data = malloc(facts->bytes + 1);
    if (version->data) {
        version->kept = place_content(root_fd, path, facts, version->data);
        version->data[facts->bytes] = '\0';
    }
    if (version->kept) {
        keeper->used_bytes += facts->bytes;
    } else {
        free(version->data);
        version->data = NULL;
    }
    return version;
}

void place_keep(struct keeper *keeper, const char *path, struct version *version)
{
    struct version *copy =
        version->kept ? NULL : place_read(keeper, keeper->work_fd, path, &version->facts);
    if (copy && copy->kept) {
        version->data = copy->data;
        version->bytes = copy->bytes;
        version->kept = true;
        copy->data = NULL;
    }
    version_release(keeper, &copy);
}

/* --- replacing --- */

/* Code may have taken the right to write from its own directories: gives it back for a moment. */
struct loosened {
    int fd; /* -1: the directory is as it was */
    mode_t mode;
};

static struct loosened loosen(int dir_fd)
{
    struct stat st;
    struct loosened loosened = {.fd = -1};
    if (fstat(dir_fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        loosened.fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        loosened.mode = st.st_mode & 07777;
        if (loosened.fd >= 0 && fchmod(loosened.fd, loosened.mode | 0700) < 0) {
            own_close(&loosened.fd);
        }
    }
    return loosened;
}

static void tighten(struct loosened *loosened)
{
    if (loosened->fd >= 0) {
        (void)fchmod(loosened->fd, loosened->mode);
        own_close(&loosened->fd);
    }
}

void place_temporary_name(char out[PLACE_TEMPORARY_NAME])
{
    uint64_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    (void)snprintf(out, PLACE_TEMPORARY_NAME, ".write-%016llx", (unsigned long long)random);
}

static void set_times(int fd, int64_t mtime_ns)
{
    int64_t rest = (mtime_ns % NS_PER_S + NS_PER_S) % NS_PER_S; /* before 1970 too */
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {.tv_sec = (mtime_ns - rest) / NS_PER_S, .tv_nsec = rest}};
    (void)futimens(fd, times);
}

/* Copies what from_fd has. */
static int copy_whole(int fd, int from_fd)
{
    static char bytes[COPY_BYTES];
    ssize_t got = 0;
    while ((got = read(from_fd, bytes, sizeof bytes)) > 0) {
        int r = fd_write_all(fd, bytes, (size_t)got);
        if (r < 0) {
            return r;
        }
    }
    return got < 0 ? -errno : 0;
}

/* Makes a file or symlink of that name, which nothing has. from_fd: of the content, else -1. */
static int make(int dir_fd, const char *name, const struct version *version, int from_fd)
{
    if (version->kind == KIND_LINK) {
        return symlinkat(version->data, dir_fd, name) < 0 ? -errno : 0;
    }
    defer_close int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    int r =
        from_fd >= 0 ? copy_whole(fd, from_fd) : fd_write_all(fd, version->data, version->bytes);
    if (r == 0 && fchmod(fd, version->mode) < 0) {
        r = -errno;
    }
    set_times(fd, version->mtime_ns);
    return r;
}

static int put_directory(int dir_fd, const char *name, const struct version *version)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(dir_fd, name, 0) < 0) {
        return -errno;
    }
    if (mkdirat(dir_fd, name, version->mode) < 0 && errno != EEXIST) {
        return -errno;
    }
    defer_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd >= 0 ? fchmod(fd, version->mode)
                    : fchmodat(dir_fd, name, version->mode, AT_SYMLINK_NOFOLLOW);
    return r < 0 ? -errno : 0;
}

static int rename_with(int dir_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    return syscall(SYS_renameat2, dir_fd, from, to_fd, to, flags) < 0 ? -errno : 0;
}

/* Whether name is what the facts say: 0, -ESTALE or -errno. moved: it has been renamed since. */
static int check(int dir_fd, const char *name, const struct apply_facts *expected, bool moved)
{
    struct stat st;
    struct apply_facts have = {};
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        facts_of_stat(&st, &have);
    } else if (errno != ENOENT) {
        return -errno;
    }
    bool same = S_ISDIR(have.mode) ? have.mode == expected->mode && have.inode == expected->inode
                : moved            ? apply_facts_equal_moved(&have, expected)
                                   : facts_equal(&have, expected);
    return same ? 0 : -ESTALE;
}

/* What was made takes the name, if what has the name is what was expected: looks again at what the
 * exchange has brought, because the user may have saved between look and rename. */
static int take_name(int dir_fd, const char *temporary, const char *name,
                     const struct apply_facts *expected)
{
    int r = check(dir_fd, name, expected, false);
    if (r < 0) {
        return r; /* nothing has been exchanged */
    }
    if (!expected->mode) {
        r = rename_with(dir_fd, temporary, dir_fd, name, RENAME_NOREPLACE);
        return r == -EEXIST   ? -ESTALE
               : r == -EINVAL ? rename_with(dir_fd, temporary, dir_fd, name, 0)
                              : r;
    }
    r = rename_with(dir_fd, temporary, dir_fd, name, RENAME_EXCHANGE);
    if (r == -EINVAL) { /* the file system has no such thing */
        return rename_with(dir_fd, temporary, dir_fd, name, 0);
    }
    r = r ? r : check(dir_fd, temporary, expected, true);
    if (r == -ESTALE) {
        (void)rename_with(dir_fd, temporary, dir_fd, name, RENAME_EXCHANGE);
    }
    return r                                                                             ? r
           : unlinkat(dir_fd, temporary, S_ISDIR(expected->mode) ? AT_REMOVEDIR : 0) < 0 ? -errno
                                                                                         : 0;
}

static int put_at(int dir_fd, const char *name, const struct version *version, int from_fd,
                  const struct apply_facts *expected)
{
    char temporary[PLACE_TEMPORARY_NAME];
    if (version->kind == KIND_DIRECTORY) {
        return put_directory(dir_fd, name, version);
    }
    place_temporary_name(temporary);
    int r = make(dir_fd, temporary, version, from_fd);
    struct stat made = {};
    bool known = r == 0 && fstatat(dir_fd, temporary, &made, AT_SYMLINK_NOFOLLOW) == 0;
    if (r == 0 && expected) {
        r = take_name(dir_fd, temporary, name, expected);
    } else if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0 &&
               /* An empty directory is in the way of a file, rename(2). */
               (errno != EISDIR || unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ||
                renameat(dir_fd, temporary, dir_fd, name) < 0)) {
        r = -errno;
    }
    /* An exchange may have left what the user has saved under this name: that stays. */
    struct stat st;
    if (r < 0 && (!known || (fstatat(dir_fd, temporary, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                             st.st_ino == made.st_ino))) {
        (void)unlinkat(dir_fd, temporary, 0);
    }
    return r;
}

/* Opens the directory of path, and makes it and those above it if they are missing. */
static int make_parent(const struct keeper *keeper, const char *path, const char **ret_name)
{
    char text[KEEPER_PATH_BYTES];
    int fd = place_parent(keeper->work_fd, path, ret_name);
    if (fd != -ENOENT || strlen(path) >= sizeof text) {
        return fd;
    }
    (void)snprintf(text, sizeof text, "%s", path);
    for (char *slash = strchr(text, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *name = NULL;
        *slash = '\0';
        defer_close int dir_fd = place_parent(keeper->work_fd, text, &name);
        if (dir_fd < 0) {
            return dir_fd;
        }
        if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST) {
            return -errno;
        }
        *slash = '/';
    }
    return place_parent(keeper->work_fd, path, ret_name);
}

static int put(const struct keeper *keeper, const char *path, const struct version *version,
               int from_fd, const struct apply_facts *expected)
{
    const char *name = NULL;
    defer_close int dir_fd = make_parent(keeper, path, &name);
    if (dir_fd < 0) {
        return dir_fd;
    }
    struct loosened loosened = loosen(dir_fd);
    int r = put_at(dir_fd, name, version, from_fd, expected);
    tighten(&loosened);
    return r;
}

/* Removes what is at path by way of another name, under which it is checked again. */
static int remove_checked(const struct keeper *keeper, const char *path,
                          const struct apply_facts *expected)
{
    char temporary[PLACE_TEMPORARY_NAME];
    const char *name = NULL;
    defer_close int dir_fd = place_parent(keeper->work_fd, path, &name);
    int r = dir_fd < 0 ? dir_fd : check(dir_fd, name, expected, false);
    if (r < 0 || S_ISDIR(expected->mode)) {
        return r ? r : unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    }
    struct loosened loosened = loosen(dir_fd);
    place_temporary_name(temporary);
    r = rename_with(dir_fd, name, dir_fd, temporary, RENAME_NOREPLACE);
    if (r == -EINVAL) {
        r = unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
    } else if (r == 0) {
        r = check(dir_fd, temporary, expected, true);
        if (r == -ESTALE) {
            (void)rename_with(dir_fd, temporary, dir_fd, name, RENAME_NOREPLACE);
        } else {
            r = unlinkat(dir_fd, temporary, 0) < 0 ? -errno : 0;
        }
    }
    tighten(&loosened);
    return r;
}

int place_put(const struct keeper *keeper, const char *path, const struct version *version,
              const struct apply_facts *expected)
{
    if (version->kind == KIND_NONE) {
        return !expected        ? place_remove(keeper, path)
               : expected->mode ? remove_checked(keeper, path, expected)
                                : 0;
    }
    return version->kept ? put(keeper, path, version, -1, expected) : -ENODATA;
}

int place_move(const struct keeper *keeper, const char *path, const char *target,
               const struct apply_facts *expected)
{
    const char *name = NULL;
    const char *target_name = NULL;
    struct apply_facts there;
    defer_close int dir_fd = place_parent(keeper->work_fd, path, &name);
    defer_close int target_fd = dir_fd < 0 ? -1 : make_parent(keeper, target, &target_name);
    int r = dir_fd < 0      ? dir_fd
            : target_fd < 0 ? target_fd
            : expected      ? check(dir_fd, name, expected, false)
                            : 0;
    r = r ? r : rename_with(dir_fd, name, target_fd, target_name, RENAME_NOREPLACE);
    if (r == -EINVAL) { /* also a directory into itself: that fails again */
        r = place_look(keeper->work_fd, target, &there, NULL);
        r = r ? r : there.mode ? -EEXIST : rename_with(dir_fd, name, target_fd, target_name, 0);
    }
    return r == -EEXIST ? -ESTALE : r;
}

int place_copy(const struct keeper *keeper, int from_fd, const char *path,
               const struct apply_facts *facts)
{
    char target[KEEPER_PATH_BYTES];
    struct version version = {.kind = kind_of_mode(facts->mode),
                              .mode = facts->mode & PERMISSIONS,
                              .mtime_ns = facts->mtime_ns,
                              .data = target};
    defer_close int fd = -1;
    if (version.kind == KIND_FILE) {
        fd = place_open(from_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
            return fd;
        }
    } else if (version.kind == KIND_LINK) {
        if (facts->bytes + 1 > sizeof target || !read_link(from_fd, path, facts->bytes, target)) {
            return -EBUSY;
        }
        target[facts->bytes] = '\0';
    } else if (version.kind != KIND_DIRECTORY) {
        return -EMEDIUMTYPE;
    }
    return put(keeper, path, &version, fd, NULL);
}

void place_end_directory(const struct keeper *keeper, const char *path,
                         const struct version *version)
{
    defer_close int fd = place_open(keeper->work_fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd >= 0) {
        (void)fchmod(fd, version->mode);
        set_times(fd, version->mtime_ns);
    }
}

int place_remove(const struct keeper *keeper, const char *path)
{
    const char *name = NULL;
    struct stat st;
    int r = 0;
    defer_close int dir_fd = place_parent(keeper->work_fd, path, &name);
    if (dir_fd < 0) {
        return dir_fd == -ENOENT || dir_fd == -ENOTDIR || dir_fd == -ELOOP ? 0 : dir_fd;
    }
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    struct loosened loosened = loosen(dir_fd);
    if (unlinkat(dir_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT) {
        r = -errno;
    }
    tighten(&loosened);
    return r;
}

/* --- comparing --- */

static bool same_files(int one_fd, int other_fd, uint64_t size)
{
    static char one[COPY_BYTES];
    static char other[COPY_BYTES];
    for (uint64_t at = 0; at < size;) {
        uint64_t part = size - at < COPY_BYTES ? size - at : COPY_BYTES;
        if (pread(one_fd, one, part, (off_t)at) != (ssize_t)part ||
            pread(other_fd, other, part, (off_t)at) != (ssize_t)part ||
            memcmp(one, other, part) != 0) {
            return false;
        }
        at += part;
    }
    return true;
}

bool place_same(int one_fd, const struct apply_facts *one, int other_fd,
                const struct apply_facts *other, const char *path)
{
    enum { TYPE = S_IFMT };
    if ((one->mode & TYPE) != (other->mode & TYPE) || one->bytes != other->bytes) {
        return false;
    }
    if (S_ISLNK(one->mode)) {
        char targets[2][KEEPER_PATH_BYTES];
        return one->bytes < KEEPER_PATH_BYTES && read_link(one_fd, path, one->bytes, targets[0]) &&
               read_link(other_fd, path, one->bytes, targets[1]) &&
               memcmp(targets[0], targets[1], one->bytes) == 0;
    }
    if ((one->mode & PERMISSIONS) != (other->mode & PERMISSIONS) || !S_ISREG(one->mode)) {
        return one->mode == 0 ||
               (S_ISDIR(one->mode) && (one->mode & PERMISSIONS) == (other->mode & PERMISSIONS));
    }
    defer_close int one_file = place_open(one_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    defer_close int other_file = place_open(other_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return one_file >= 0 && other_file >= 0 && same_files(one_file, other_file, one->bytes);
}
