#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "cli/input.h"

enum {
    BACKUPS_MOST = 100,
    MODE_NEW = 0600, /* such files have keys in them */
};

int replace_read(struct replace *file, const char *path, struct fail *ret_fail)
{
    struct stat link = {};
    file->path = realpath(path, NULL);
    if (!file->path && errno == ENOENT && lstat(path, &link) < 0) {
        file->path = strdup(path);
        return file->path ? 0 : fail_set(ret_fail, ENOMEM, "%s", path);
    }
    if (!file->path) {
        return fail_set(ret_fail, errno, "%s", path);
    }
    defer_close int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &file->stat) < 0) {
        return fail_set(ret_fail, errno, "%s", file->path);
    }
    if (!S_ISREG(file->stat.st_mode)) {
        return fail_set(ret_fail, EINVAL, "%s is no regular file", file->path);
    }
    int r = input_read(fd, &file->text);
    file->exists = r == 0;
    return r < 0 ? fail_set(ret_fail, -r, "%s", file->path) : 0;
}

/* Makes the folder that path lies in, and those above it. 0 or -errno. */
static int make_folders(const char *path, struct fail *ret_fail)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s", path) >= PATH_MAX) {
        return fail_set(ret_fail, ENAMETOOLONG, "%s", path);
    }
    for (char *at = folder; (at = strchr(at + 1, '/'));) {
        *at = '\0';
        if (mkdir(folder, 0755) < 0 && errno != EEXIST) {
            return fail_set(ret_fail, errno, "make %s", folder);
        }
        *at = '/';
    }
    return 0;
}

/* Writes a file of the old one's owner and mode that is not there yet. 0 or -errno. */
static int write_beside(const struct replace *file, const char *path, const char *text, size_t size)
{
    defer_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, MODE_NEW);
    if (fd < 0) {
        return -errno;
    }
    int r = 0;
    if (file->exists) {
        /* Only root can give it away; for others it is theirs already. */
        (void)!fchown(fd, file->stat.st_uid, file->stat.st_gid);
        r = fchmod(fd, file->stat.st_mode & 07777) < 0 ? -errno : 0;
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
        return fail_set(ret_fail, -r, "keep the old text in %s", path);
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
    int r = file->exists ? keep_old(file, ret_fail) : make_folders(file->path, ret_fail);
    if (r < 0) {
        return r;
    }
    r = write_beside(file, path, text, size);
    if (r < 0) {
        (void)fail_set(ret_fail, -r, "write %s", path);
    } else if (!is_unchanged(file)) {
        r = fail_set(ret_fail, EBUSY, "%s was written by somebody else meanwhile", file->path);
    } else if (rename(path, file->path) < 0) {
        r = fail_set(ret_fail, errno, "rename %s to %s", path, file->path);
    }
    if (r < 0) {
        (void)unlink(path);
        if (file->backup) {
            (void)unlink(file->backup);
        }
    }
    return r;
}

void replace_done(struct replace *file)
{
    free(file->path);
    free(file->backup);
    buf_done(&file->text);
    *file = (struct replace){};
}
