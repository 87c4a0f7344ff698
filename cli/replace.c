#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fd.h"
#include "base/own.h"
#include "cli/terminal.h"

enum { MODE_NEW = 0600 }; /* such files hold keys */

/* Resolves path, or makes the directories of a file that is missing. 0 or -errno. */
static int find_place(struct replace *file, const char *path, struct fail *ret_fail)
{
    if (realpath(path, file->path)) {
        return 0;
    }
    int error = errno;
    bool missing = error == ENOENT && lstat(path, &file->stat) < 0;
    if (snprintf(file->path, sizeof file->path, "%s", path) >= PATH_MAX || !missing) {
        return fail_set(ret_fail, missing ? ENAMETOOLONG : error, "%s", path);
    }
    for (char *at = file->path; (at = strchr(at + 1, '/'));) {
        *at = '\0';
        if (mkdir(file->path, 0755) < 0 && errno != EEXIST) {
            return fail_set(ret_fail, errno, "cannot create %s", file->path);
        }
        *at = '/';
    }
    return 0;
}

/* Waits until no other process holds the directory. 0 or -errno. */
static int lock_directory(struct replace *file, struct fail *ret_fail)
{
    char path[PATH_MAX];
    memcpy(path, file->path, sizeof path);
    file->directory_fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked =
        file->directory_fd >= 0 && TEMP_FAILURE_RETRY(flock(file->directory_fd, LOCK_EX)) == 0;
    return !locked ? fail_set(ret_fail, errno, "cannot lock the directory of %s", file->path) : 0;
}

/* Whether the file may be replaced. 0 or -errno. */
static int check_file(const struct replace *file, struct fail *ret_fail)
{
    if (!S_ISREG(file->stat.st_mode)) {
        return fail_set(ret_fail, EINVAL, "%s is not a regular file", file->path);
    }
    if (!(file->stat.st_mode & S_IWUSR)) {
        return fail_set(ret_fail, EACCES, "%s is read-only; run chmod u+w, or name another file",
                        file->path);
    }
    if (geteuid() != 0 && file->stat.st_uid != geteuid()) {
        return fail_set(ret_fail, EPERM, "%s belongs to another user", file->path);
    }
    return 0;
}

int replace_read(struct replace *file, const char *path, struct fail *ret_fail)
{
    int r = find_place(file, path, ret_fail);
    r = r ? r : lock_directory(file, ret_fail);
    if (r < 0) {
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
    if (r < 0) {
        return r;
    }
    r = input_read(fd, &file->text);
    file->exists = r == 0;
    return r < 0 ? fail_set(ret_fail, -r, "%s", file->path) : 0;
}

/* Gives a new file the old one's owner, mode and attributes. 0 or -errno. */
static int make_alike(const struct replace *file, int fd)
{
    if (!file->exists) {
        return 0;
    }
    defer_close int old_fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (old_fd < 0 || fchown(fd, file->stat.st_uid, file->stat.st_gid) < 0 ||
        fchmod(fd, file->stat.st_mode & 07777) < 0) {
        return -errno;
    }
    return attributes_copy(old_fd, fd);
}

/* Writes a new file. 0 or -errno. */
static int write_beside(const struct replace *file, const char *path, const char *text, size_t size)
{
    defer_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, MODE_NEW);
    if (fd < 0) {
        return -errno;
    }
    int r = make_alike(file, fd);
    r = r ? r : fd_write_all(fd, text, size);
    r = r ? r : fd_flush(fd);
    if (r < 0) {
        (void)unlink(path);
    }
    return r;
}

/* One name, and not ".bak", which a file of the user's may have. */
static int keep_old(struct replace *file, struct fail *ret_fail)
{
    int n = snprintf(file->backup, sizeof file->backup, "%s" REPLACE_BACKUP, file->path);
    if (n < PATH_MAX) {
        (void)unlink(file->backup); /* older than this change */
    }
    int r = n < PATH_MAX
                ? write_beside(file, file->backup, buf_bytes(&file->text), buf_size(&file->text))
                : -ENAMETOOLONG;
    return r < 0 ? fail_set(ret_fail, -r, "cannot save the original file as %s", file->backup) : 0;
}

static bool is_unchanged(const struct replace *file)
{
    struct stat now;
    if (stat(file->path, &now) < 0) {
        return !file->exists && errno == ENOENT;
    }
    return file->exists && now.st_ino == file->stat.st_ino && now.st_size == file->stat.st_size &&
           memcmp(&now.st_mtim, &file->stat.st_mtim, sizeof now.st_mtim) == 0;
}

int replace_write(struct replace *file, const char *text, size_t size, struct fail *ret_fail)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s.new-%d", file->path, (int)getpid());
    int r = n < PATH_MAX ? write_beside(file, path, text, size) : -ENAMETOOLONG;
    if (r < 0) {
        return fail_set(ret_fail, -r, "cannot write %s", path);
    }
    r = file->exists ? keep_old(file, ret_fail) : 0;
    if (r < 0) {
        (void)unlink(path);
        return r;
    }
    if (!is_unchanged(file)) {
        r = fail_set(ret_fail, EBUSY, "%s was changed by another program", file->path);
    } else if (rename(path, file->path) < 0) {
        r = fail_set(ret_fail, errno, "cannot rename %s to %s", path, file->path);
    }
    if (r < 0) {
        (void)unlink(path);
        (void)unlink(file->backup); /* "": there is none */
    }
    return r;
}

void replace_done(struct replace *file)
{
    buf_done(&file->text);
    drop_fd(&file->directory_fd);
    *file = REPLACE_NONE;
}
