/* Files by their paths below a directory: looks, reads, compares, and puts others in their place.
 * Code can change all of it at any moment, so each path is opened from the directory down without
 * following a symlink. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/keeper/keeper.h"

enum { PERMISSIONS = 0777 };

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
    return fd_open_beneath(root_fd, text, O_PATH | O_DIRECTORY);
}

/* --- looking --- */

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
    *ret_facts = apply_facts_of(&st);
    if (ret_links) {
        *ret_links = (unsigned)st.st_nlink;
    }
    return 0;
}

struct apply_facts place_facts(int root_fd, const char *path)
{
    struct apply_facts facts;
    (void)place_look(root_fd, path, &facts, NULL);
    return facts;
}

/* --- reading --- */

static bool still(int fd, const struct apply_facts *facts)
{
    struct stat st;
    struct apply_facts have = fstat(fd, &st) < 0 ? (struct apply_facts){} : apply_facts_of(&st);
    return apply_facts_alike(&have, facts);
}

/* fd: of the file, or -1. */
static bool read_file(int fd, const struct apply_facts *facts, char *data, uint64_t most,
                      uint64_t *ret_used)
{
    return fd >= 0 && still(fd, facts) &&
           content_load(fd, facts->bytes, data, most, ret_used) == 0 && still(fd, facts);
}

static bool read_link(int root_fd, const char *path, uint64_t size, char *data)
{
    const char *name = NULL;
    defer_close int dir_fd = place_parent(root_fd, path, &name);
    return dir_fd >= 0 && readlinkat(dir_fd, name, data, size + 1) == (ssize_t)size;
}

bool place_content(int root_fd, const char *path, const struct apply_facts *facts, char *data)
{
    if (S_ISLNK(facts->mode)) {
        return read_link(root_fd, path, facts->bytes, data);
    }
    defer_close int fd = fd_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return read_file(fd, facts, data, UINT64_MAX, &(uint64_t){0});
}

int place_is_written(const struct keeper *keeper, const char *path)
{
    defer_close int fd = fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? fd : fd_is_written(fd);
}

bool place_has_content(const struct keeper *keeper, const char *path,
                       const struct apply_facts *facts, const struct version *version)
{
    bool may = version->kept && facts->bytes == version->bytes;
    char *data = may ? calloc(1, facts->bytes + 1) : NULL;
    bool has = data && place_content(keeper->work_fd, path, facts, data) &&
               memcmp(data, version->data, facts->bytes) == 0;
    free(data);
    return has;
}

struct attributes_kept {
    struct version *version;
    size_t space; /* for all of them */
};

static int keep_attribute(void *arg, const char *name, const void *value, size_t size)
{
    struct attributes_kept *kept = arg;
    struct version *version = kept->version;
    uint32_t value_size = (uint32_t)size;
    size_t name_size = strlen(name) + 1;
    size_t all = version->attributes_size + name_size + sizeof value_size + size;
    char *bytes = all <= kept->space ? realloc(version->attributes, all) : NULL;
    if (!bytes) {
        return -ENOMEM;
    }
    char *at = bytes + version->attributes_size;
    memcpy(at, name, name_size);
    memcpy(at + name_size, &value_size, sizeof value_size);
    memcpy(at + name_size + sizeof value_size, value, size);
    version->attributes = bytes;
    version->attributes_size = all;
    return 0;
}

/* The extended attributes of the user's file: false, and none, unless there is space for all. */
static bool read_attributes(int fd, struct version *version, size_t space)
{
    struct attributes_kept kept = {.version = version, .space = space};
    if (attributes_each(fd, keep_attribute, &kept) == 0) {
        return true;
    }
    free(version->attributes);
    version->attributes = NULL;
    version->attributes_size = 0;
    return false;
}

struct version *place_read(struct keeper *keeper, int root_fd, const char *path,
                           const struct apply_facts *facts)
{
    struct version *version = version_of(facts);
    bool has_data = version && (version->kind == KIND_FILE || version->kind == KIND_LINK);
    uint64_t space = keeper->limit_bytes - keeper->used_bytes;
    if (!has_data || facts->bytes > (S_ISREG(facts->mode) ? keeper->limit_bytes : space)) {
        return version;
    }
    version->data = calloc(1, facts->bytes + 1);
    defer_close int fd = version->data && S_ISREG(facts->mode)
                             ? fd_open_beneath(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
                             : -1;
    if (version->data) {
        version->kept = S_ISREG(facts->mode)
                            ? read_file(fd, facts, version->data, space, &version->data_bytes)
                            : read_link(root_fd, path, facts->bytes, version->data);
        version->data[facts->bytes] = '\0';
        version->data_bytes = S_ISREG(facts->mode) ? version->data_bytes : facts->bytes;
    }
    if (version->kept && fd >= 0) {
        version->kept = read_attributes(fd, version, space - version->data_bytes);
    }
    if (version->kept) {
        keeper->used_bytes += version->data_bytes + version->attributes_size;
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
        version->data_bytes = copy->data_bytes;
        version->attributes = copy->attributes;
        version->attributes_size = copy->attributes_size;
        copy->attributes = NULL;
        copy->attributes_size = 0;
        version->bytes = copy->bytes;
        version->kept = true;
        copy->data = NULL;
    }
    version_release(keeper, &copy);
}

/* --- comparing --- */

bool place_same(int one_fd, const struct apply_facts *one, int other_fd,
                const struct apply_facts *other, const char *path)
{
    if ((one->mode ^ other->mode) & (unsigned)S_IFMT || one->bytes != other->bytes) {
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
    defer_close int one_file = fd_open_beneath(one_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    defer_close int other_file = fd_open_beneath(other_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return one_file >= 0 && other_file >= 0 && content_equal(one_file, other_file, one->bytes) == 1;
}

/* --- replacing: the user and code may do the same at the same moment --- */

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
    struct timespec times[2];
    content_times(mtime_ns, times);
    (void)futimens(fd, times);
}

enum { WITHOUT_ACL = 1 }; /* it names users whom the sandbox does not know */

/* 0, WITHOUT_ACL or -errno */
static int set_attributes(int fd, const struct version *version)
{
    bool has_acl = false;
    int result = 0;
    const char *at = version->attributes;
    for (const char *end = at + version->attributes_size; at < end;) {
        uint32_t size = 0;
        const char *name = at;
        at += strlen(at) + 1;
        memcpy(&size, at, sizeof size);
        at += sizeof size;
        int r = attributes_set(fd, name, at, size);
        bool is_acl = strcmp(name, ATTRIBUTES_ACL) == 0;
        if (r < 0 && !is_acl) {
            return r == -ENOSPC ? -E2BIG : r; /* also of the inode, which the user cannot change */
        }
        result = r < 0 ? WITHOUT_ACL : result;
        has_acl = has_acl || is_acl;
        at += size;
    }
    return has_acl ? result : attributes_remove_acl(fd);
}

static bool is_wanted(void)
{
    return true;
}

/* Makes a file or symlink of that name, which nothing has. from_fd: of the content, else -1. 0,
 * WITHOUT_ACL: only its owner can use it, because the mode may give others more than they had, or
 * -errno. */
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
    int r = from_fd >= 0 ? content_copy(from_fd, fd, version->bytes, is_wanted)
                         : content_store(fd, version->data, version->bytes);
    r = r > 0 ? -ESTALE : r;
    if (r == 0 && fchmod(fd, version->mode) < 0) {
        r = -errno;
    }
    r = r ? r : set_attributes(fd, version); /* after the mode, which would change the ACL */
    if (r == WITHOUT_ACL && fchmod(fd, version->mode & (mode_t)S_IRWXU) < 0) {
        r = -errno;
    }
    set_times(fd, version->mtime_ns);
    int flushed = r < 0 ? r : fd_flush(fd);
    return flushed < 0 ? flushed : r;
}

static int put_directory(int dir_fd, const char *name, const struct version *version,
                         const struct apply_facts *expected)
{
    struct stat st;
    if (!expected && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(dir_fd, name, 0) < 0) {
        return -errno;
    }
    bool is_there = expected && S_ISDIR(expected->mode);
    if (mkdirat(dir_fd, name, version->mode) < 0 && (errno != EEXIST || (expected && !is_there))) {
        return errno == EEXIST ? -ESTALE : -errno;
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

/* Whether name is what the facts say: 0, -ESTALE or -errno. */
static int check(int dir_fd, const char *name, const struct apply_facts *expected)
{
    struct stat st;
    struct apply_facts have = {};
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        have = apply_facts_of(&st);
    } else if (errno != ENOENT) {
        return -errno;
    }
    return apply_facts_equal(&have, expected) ? 0 : -ESTALE;
}

/* The same of what has been renamed since and is to be removed. -EBUSY: somebody who has opened or
 * mapped it before may be about to write to it. */
static int check_last(int dir_fd, const char *name, const struct apply_facts *expected)
{
    struct apply_facts have = apply_facts_in(dir_fd, name);
    return !apply_facts_equal_moved(&have, expected)       ? -ESTALE
           : fd_is_written_at(dir_fd, name, have.mode) > 0 ? -EBUSY
                                                           : 0;
}

/* What was made takes the name, if what has the name is what was expected: looks again at what the
 * exchange has brought, because the user may have saved between look and rename. */
static int take_name(int dir_fd, const char *temporary, const char *name,
                     const struct apply_facts *expected)
{
    int r = check(dir_fd, name, expected);
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
        r = check_last(dir_fd, name, expected);
        return r ? r : rename_with(dir_fd, temporary, dir_fd, name, 0);
    }
    if (r < 0) {
        return r;
    }
    r = check_last(dir_fd, temporary, expected);
    if (r < 0) {
        (void)rename_with(dir_fd, temporary, dir_fd, name, RENAME_EXCHANGE);
    }
    return r                                                                             ? r
           : unlinkat(dir_fd, temporary, S_ISDIR(expected->mode) ? AT_REMOVEDIR : 0) < 0 ? -errno
                                                                                         : 0;
}

/* Writes the version over the file that has the name, and has an ACL that no new file can get, or
 * other names. The version is on the disk under another name, until the file has it. 0 or -errno;
 * then the file may have been changed. */
static int write_over(int dir_fd, const char *name, const struct version *version,
                      const struct apply_facts *expected)
{
    struct stat st;
    defer_close int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    struct apply_facts have = apply_facts_of(&st);
    if (!apply_facts_equal(&have, expected)) {
        return -ESTALE;
    }
    if (fd_is_open(fd) > 0) {
        return -EBUSY;
    }
    int r = fchmod(fd, version->mode) < 0 ? -errno : set_attributes(fd, version);
    if (r) {
        (void)fchmod(fd, st.st_mode & 07777);
        return -EOPNOTSUPP;
    }
    r = content_store(fd, version->data, version->bytes);
    set_times(fd, version->mtime_ns);
    return r ? r : fd_flush(fd);
}

/* What has been given the name and is still what it was; else mode 0. */
static struct apply_facts after_move(int dir_fd, const char *name, const struct apply_facts *before)
{
    struct apply_facts now = apply_facts_in(dir_fd, name);
    return apply_facts_equal_moved(&now, before) ? now : (struct apply_facts){};
}

static bool may_get_acl(int dir_fd, const char *name)
{
    struct stat st;
    defer_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink == 1 && attributes_has_acl(fd);
}

/* What is to be at a path. */
struct content {
    const struct version *version;
    int from_fd;                        /* of the bytes; -1: the version has them */
    const struct apply_facts *expected; /* NULL: whatever is there */
    bool over;                          /* into the file that is there, which has other names */
};

static int put_at(int dir_fd, const char *name, const struct content *content,
                  struct apply_facts *ret_put)
{
    char temporary[PLACE_TEMPORARY_NAME];
    const struct version *version = content->version;
    const struct apply_facts *expected = content->expected;
    if (version->kind == KIND_DIRECTORY) {
        int made = put_directory(dir_fd, name, version, expected);
        *ret_put = made < 0 ? (struct apply_facts){} : apply_facts_in(dir_fd, name);
        return made;
    }
    place_temporary_name(temporary);
    int r = make(dir_fd, temporary, version, content->from_fd);
    bool can_get_acl = r == WITHOUT_ACL && expected && S_ISREG(expected->mode) &&
                       content->from_fd < 0 && may_get_acl(dir_fd, name);
    int written =
        r >= 0 && (content->over || can_get_acl) ? write_over(dir_fd, name, version, expected) : 1;
    if (written == 0 || (content->over && written < 0)) {
        (void)unlinkat(dir_fd, temporary, 0);
        struct apply_facts now = apply_facts_in(dir_fd, name);
        bool is_it = written == 0 && now.inode == expected->inode;
        *ret_put = is_it ? now : (struct apply_facts){};
        return written;
    }
    r = r == WITHOUT_ACL ? 0 : r;
    struct apply_facts made = r < 0 ? (struct apply_facts){} : apply_facts_in(dir_fd, temporary);
    if (r == 0 && expected) {
        r = take_name(dir_fd, temporary, name, expected);
    } else if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0 &&
               /* An empty directory is in the way of a file, rename(2). */
               (errno != EISDIR || unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ||
                renameat(dir_fd, temporary, dir_fd, name) < 0)) {
        r = -errno;
    }
    /* An exchange may have left what the user has saved under this name: that stays. */
    if (r < 0 && (!made.mode || apply_facts_in(dir_fd, temporary).inode == made.inode)) {
        (void)unlinkat(dir_fd, temporary, 0);
    }
    *ret_put = r < 0 ? (struct apply_facts){} : after_move(dir_fd, name, &made);
    return r;
}

/* Opens the directory of path, and makes it and those above it if they are missing: as the user's
 * are, or with a mode that gives nobody more than they had. */
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
        mode_t mode = place_facts(keeper->lower_fd, text).mode;
        struct version missing = {.mode = S_ISDIR(mode) ? mode & PERMISSIONS : 0700};
        struct loosened loosened = loosen(dir_fd);
        int r = put_directory(dir_fd, name, &missing, &(struct apply_facts){});
        tighten(&loosened);
        if (r < 0 && r != -ESTALE) {
            return r;
        }
        *slash = '/';
    }
    return place_parent(keeper->work_fd, path, ret_name);
}

static int put(const struct keeper *keeper, const char *path, const struct content *content,
               struct apply_facts *ret_put)
{
    const char *name = NULL;
    defer_close int dir_fd = content->over ? place_parent(keeper->work_fd, path, &name)
                                           : make_parent(keeper, path, &name);
    if (dir_fd < 0) {
        return dir_fd;
    }
    struct loosened loosened = loosen(dir_fd);
    int r = put_at(dir_fd, name, content, ret_put);
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
    int r = dir_fd < 0 ? dir_fd : check(dir_fd, name, expected);
    if (r < 0 || S_ISDIR(expected->mode)) {
        return r ? r : unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    }
    struct loosened loosened = loosen(dir_fd);
    place_temporary_name(temporary);
    r = rename_with(dir_fd, name, dir_fd, temporary, RENAME_NOREPLACE);
    if (r == -EINVAL) {
        r = check_last(dir_fd, name, expected);
        r = r ? r : unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
    } else if (r == 0) {
        r = check_last(dir_fd, temporary, expected);
        if (r < 0) {
            (void)rename_with(dir_fd, temporary, dir_fd, name, RENAME_NOREPLACE);
        } else {
            r = unlinkat(dir_fd, temporary, 0) < 0 ? -errno : 0;
        }
    }
    tighten(&loosened);
    return r;
}

int place_put(const struct keeper *keeper, const char *path, const struct version *version,
              const struct apply_facts *expected, struct apply_facts *ret_put)
{
    *ret_put = (struct apply_facts){};
    if (version->kind == KIND_NONE) {
        return !expected        ? place_remove(keeper, path)
               : expected->mode ? remove_checked(keeper, path, expected)
                                : 0;
    }
    if (version->kind == KIND_DIRECTORY && expected && expected->mode && !S_ISDIR(expected->mode)) {
        int r = remove_checked(keeper, path, expected);
        expected = &(const struct apply_facts){};
        return r ? r : put(keeper, path, &(struct content){version, -1, expected}, ret_put);
    }
    return version->kept ? put(keeper, path, &(struct content){version, -1, expected}, ret_put)
                         : -ENODATA;
}

int place_put_over(const struct keeper *keeper, const char *path, const struct version *version,
                   const struct apply_facts *expected, struct apply_facts *ret_put)
{
    *ret_put = (struct apply_facts){};
    return put(keeper, path, &(struct content){version, -1, expected, .over = true}, ret_put);
}

int place_put_link(const struct keeper *keeper, const char *path, const char *other,
                   const struct apply_facts *expected, struct apply_facts *ret_put)
{
    char temporary[PLACE_TEMPORARY_NAME];
    const char *name = NULL;
    const char *other_name = NULL;
    struct apply_facts facts = place_facts(keeper->work_fd, other);
    defer_close int other_fd = place_parent(keeper->work_fd, other, &other_name);
    defer_close int dir_fd = make_parent(keeper, path, &name);
    if (dir_fd < 0 || other_fd < 0) {
        return dir_fd < 0 ? dir_fd : other_fd;
    }
    struct loosened loosened = loosen(dir_fd);
    place_temporary_name(temporary);
    int r = linkat(other_fd, other_name, dir_fd, temporary, 0) < 0 ? -errno : 0;
    struct apply_facts made =
        r < 0 ? (struct apply_facts){} : after_move(dir_fd, temporary, &facts);
    r = r ? r : made.mode ? take_name(dir_fd, temporary, name, expected) : -ESTALE;
    if (r < 0 && apply_facts_in(dir_fd, temporary).inode == facts.inode) {
        (void)unlinkat(dir_fd, temporary, 0);
    }
    tighten(&loosened);
    *ret_put = r < 0 ? (struct apply_facts){} : after_move(dir_fd, name, &made);
    return r;
}

int place_set_attributes(const struct keeper *keeper, const char *path,
                         const struct version *version, const struct apply_facts *expected,
                         struct apply_facts *ret_put)
{
    const char *name = NULL;
    struct timespec times[2];
    struct apply_facts meant = *expected;
    defer_close int dir_fd = place_parent(keeper->work_fd, path, &name);
    int r = dir_fd < 0 ? dir_fd : check(dir_fd, name, expected);
    content_times(version->mtime_ns, times);
    if (r == 0 && (fchmodat(dir_fd, name, version->mode, AT_SYMLINK_NOFOLLOW) < 0 ||
                   (version->mtime_ns != expected->mtime_ns &&
                    utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0))) {
        r = -errno;
    }
    meant.mode = (meant.mode & (unsigned)S_IFMT) | version->mode;
    meant.mtime_ns = version->mtime_ns;
    *ret_put = r < 0 ? (struct apply_facts){} : after_move(dir_fd, name, &meant);
    return r;
}

int place_move(const struct keeper *keeper, const char *path, const char *target,
               const struct apply_facts *expected, struct apply_facts *ret_put)
{
    const char *name = NULL;
    const char *target_name = NULL;
    struct apply_facts there;
    defer_close int dir_fd = place_parent(keeper->work_fd, path, &name);
    if (dir_fd < 0) {
        return dir_fd;
    }
    defer_close int target_fd = make_parent(keeper, target, &target_name);
    if (target_fd < 0) {
        return target_fd;
    }
    int r = expected ? check(dir_fd, name, expected) : 0;
    r = r ? r : rename_with(dir_fd, name, target_fd, target_name, RENAME_NOREPLACE);
    if (r == -EINVAL) { /* also a directory into itself: that fails again */
        r = place_look(keeper->work_fd, target, &there, NULL);
        r = r ? r : there.mode ? -EEXIST : rename_with(dir_fd, name, target_fd, target_name, 0);
    }
    *ret_put = r < 0      ? (struct apply_facts){}
               : expected ? after_move(target_fd, target_name, expected)
                          : apply_facts_in(target_fd, target_name);
    return r == -EEXIST ? -ESTALE : r;
}

int place_copy(const struct keeper *keeper, int from_fd, const char *path,
               const struct apply_facts *facts)
{
    char target[KEEPER_PATH_BYTES];
    struct version version = {.data = target};
    version_describe(&version, facts);
    defer_close int fd = -1;
    if (version.kind == KIND_FILE) {
        fd = fd_open_beneath(from_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
            return fd;
        }
    } else if (version.kind == KIND_LINK) {
        if (facts->bytes + 1 > sizeof target || !place_content(from_fd, path, facts, target)) {
            return -EBUSY;
        }
        target[facts->bytes] = '\0';
    } else if (version.kind != KIND_DIRECTORY) {
        return -EMEDIUMTYPE;
    }
    return put(keeper, path, &(struct content){&version, fd, NULL}, &(struct apply_facts){});
}

void place_end_directory(const struct keeper *keeper, const char *path,
                         const struct version *version)
{
    defer_close int fd =
        fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
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
