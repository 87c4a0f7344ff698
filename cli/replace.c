#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "cli/input.h"

enum {
    BACKUPS_MOST = 100,
    MODE_NEW = 0600, /* such files hold keys */
};

/* Makes the directory of path, and those above it. 0 or -errno. */
static int make_directories(const char *path, struct fail *ret_fail)
{
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof directory, "%s", path) >= PATH_MAX) {
        return fail_set(ret_fail, ENAMETOOLONG, "%s", path);
    }
    for (char *at = directory; (at = strchr(at + 1, '/'));) {
        *at = '\0';
        if (mkdir(directory, 0755) < 0 && errno != EEXIST) {
            return fail_set(ret_fail, errno, "cannot create %s", directory);
        }
        *at = '/';
    }
    return 0;
}

/* Waits until no other process holds the directory of path. 0 or -errno. */
static int lock_directory(struct replace *file, struct fail *ret_fail)
{
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof directory, "%s", file->path);
    char *slash = strrchr(directory, '/');
    const char *path = !slash ? "." : slash == directory ? "/" : directory;
    if (slash) {
        *slash = '\0';
    }
    file->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = file->directory_fd < 0 ? -errno : 0;
    if (r == 0 && flock(file->directory_fd, LOCK_EX | LOCK_NB) < 0) { /* flock(2) */
        r = errno == EWOULDBLOCK ? 0 : -errno;
        (void)fprintf(stderr, "waiting: another program has locked the directory %s\n", path);
        while (r == 0 && flock(file->directory_fd, LOCK_EX) < 0) {
            r = errno == EINTR ? 0 : -errno;
        }
    }
    return r < 0 ? fail_set(ret_fail, -r, "cannot lock the directory of %s", file->path) : 0;
}

/* Whether the file may be replaced. 0 or -errno. */
static int check_file(const struct replace *file, struct fail *ret_fail)
{
    const struct stat *stat = &file->stat;
    if (!S_ISREG(stat->st_mode)) {
        return fail_set(ret_fail, EINVAL, "%s is not a regular file", file->path);
    }
    if (!(stat->st_mode & S_IWUSR)) {
        return fail_set(ret_fail, EACCES, "%s is read-only; run chmod u+w, or name another file",
                        file->path);
    }
    if (geteuid() != 0 && stat->st_uid != geteuid()) {
        return fail_set(ret_fail, EPERM, "%s belongs to another user", file->path);
    }
    return 0;
}

int replace_read(struct replace *file, const char *path, struct fail *ret_fail)
{
    struct stat link = {};
    file->path = realpath(path, NULL);
    bool missing = !file->path && errno == ENOENT && lstat(path, &link) < 0;
    if (!file->path && !missing) {
        return fail_set(ret_fail, errno, "%s", path);
    }
    int r = missing ? make_directories(path, ret_fail) : 0;
    if (missing && r == 0) {
        file->path = strdup(path);
        r = file->path ? 0 : fail_set(ret_fail, ENOMEM, "%s", path);
    }
    r = r ? r : lock_directory(file, ret_fail);
    if (r < 0 || !file->path) {
        return r;
    }
    defer_close int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 || fstat(fd, &file->stat) < 0) {
        return fail_set(ret_fail, errno, "%s", file->path);
    }
    r = check_file(file, ret_fail);
    if (r == 0) {
        r = input_read(fd, &file->text);
        file->exists = r == 0;
        r = r < 0 ? fail_set(ret_fail, -r, "%s", file->path) : 0;
    }
    return r;
}

/* Writes a new file with the old one's owner and mode. 0 or -errno. */
static int write_beside(const struct replace *file, const char *path, const char *text, size_t size)
{
    defer_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, MODE_NEW);
    if (fd < 0) {
        return -errno;
    }
    int r = 0;
    if (file->exists) {
        r = fchown(fd, file->stat.st_uid, file->stat.st_gid) < 0 ||
                    fchmod(fd, file->stat.st_mode & 07777) < 0
                ? -errno
                : 0;
    }
    r = r ? r : fd_write_all(fd, text, size);
    r = r ? r : fsync(fd) < 0 ? -errno : 0;
    if (r < 0) {
        (void)unlink(path);
    }
    return r;
}

static int keep_old(struct replace *file, struct fail *ret_fail)
{
    char path[PATH_MAX];
    int r = -EEXIST;
    for (unsigned i = 0; r == -EEXIST && i < BACKUPS_MOST; i++) {
        int n = i == 0 ? snprintf(path, sizeof path, "%s.bak", file->path)
                       : snprintf(path, sizeof path, "%s.bak.%u", file->path, i);
        r = (size_t)n < sizeof path
                ? write_beside(file, path, buf_bytes(&file->text), buf_size(&file->text))
                : -ENAMETOOLONG;
    }
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot save the original file as %s", path);
    }
    file->backup = strdup(path);
    return file->backup ? 0 : fail_set(ret_fail, ENOMEM, "%s", path);
}

static bool is_unchanged(const struct replace *file)
{
    struct stat now = {};
    if (stat(file->path, &now) < 0) {
        return !file->exists && errno == ENOENT;
    }
    return file->exists && now.st_ino == file->stat.st_ino && now.st_size == file->stat.st_size &&
           now.st_mtim.tv_sec == file->stat.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == file->stat.st_mtim.tv_nsec;
}

int replace_write(struct replace *file, const char *text, size_t size, struct fail *ret_fail)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s.new-%d", file->path, (int)getpid());
    if ((size_t)n >= sizeof path) {
        return fail_set(ret_fail, ENAMETOOLONG, "%s", file->path);
    }
    int r = file->exists ? keep_old(file, ret_fail) : 0;
    if (r < 0) {
        return r;
    }
    r = write_beside(file, path, text, size);
    bool written = r == 0;
    if (r < 0) {
        (void)fail_set(ret_fail, -r, "cannot write %s", path);
    } else if (!is_unchanged(file)) {
        r = fail_set(ret_fail, EBUSY, "%s was changed by another program", file->path);
    } else if (rename(path, file->path) < 0) {
        r = fail_set(ret_fail, errno, "cannot rename %s to %s", path, file->path);
    }
    if (r < 0 && written) {
        (void)unlink(path);
    }
    if (r < 0 && file->backup) {
        (void)unlink(file->backup);
    }
    return r;
}

void replace_done(struct replace *file)
{
    free(file->path);
    free(file->backup);
    buf_done(&file->text);
    drop_fd(&file->directory_fd);
    *file = REPLACE_NONE;
}
