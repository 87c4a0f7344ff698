/* Checks what an installer has left before it becomes a layer. Package code may have put it there,
 * so the check uses descriptors and never a path; the sandbox that could still change it is
 * gone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "sandbox/packages/packages.h"
#include "sandbox/packages/store.h"

enum { ENTRY_BYTES = 4096 /* disk space of an entry besides its content, at most */ };

struct check {
    uint64_t bytes_most;
    uint64_t files_most;
    struct box_packages_layer *made;
    struct fail *fail;
};

static int check_directory(const struct check *check, int fd, unsigned depth);

static int refuse(const struct check *check, const char *what, const char *name)
{
    char text[80];
    return fail_set(check->fail, EINVAL, "the package holds %s: %s", what,
                    word_show(name, strlen(name), text, sizeof text));
}

static bool has_odd_character(const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name < ' ' || *name == 127) {
            return true;
        }
    }
    return false;
}

/* Makes everything readable for all and clears the set-id bits; what was executable stays so. */
static int set_mode(int dir_fd, const char *name, const struct stat *st)
{
    bool executable = S_ISDIR(st->st_mode) || st->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH);
    mode_t mode = executable ? 0755 : 0644;
    char path[32];
    if ((st->st_mode & 07777) == mode) {
        return 0;
    }
    /* Through the file itself: fchmodat(2) follows symlinks, and a directory of mode 000 cannot be
     * opened. */
    defer_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 || chmod(path, mode) < 0 ? -errno : 0;
}

static int count(const struct check *check, const struct stat *st)
{
    struct box_packages_layer *made = check->made;
    made->files++;
    made->bytes += ENTRY_BYTES + (S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
    if (made->bytes > check->bytes_most || made->files > check->files_most) {
        return fail_set(check->fail, EDQUOT, "the packages exceed --package-disk");
    }
    return 0;
}

static int check_entry(const struct check *check, int dir_fd, const char *name, unsigned depth)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return fail_set(check->fail, errno, "the installed files");
    }
    if (has_odd_character(name)) {
        return refuse(check, "a name with control characters", name);
    }
    if (S_ISLNK(st.st_mode)) {
        return refuse(check, "a symbolic link", name);
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return refuse(check, "an entry that is neither a file nor a directory", name);
    }
    int r = count(check, &st);
    if (r == 0 && set_mode(dir_fd, name, &st) < 0) {
        r = fail_set(check->fail, errno, "the installed files");
    }
    if (r < 0 || !S_ISDIR(st.st_mode)) {
        return r;
    }
    if (depth >= LIMIT_PACKAGE_DEPTH) {
        return refuse(check, "directories nested too deeply", name);
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? fail_set(check->fail, errno, "the installed files")
                  : check_directory(check, fd, depth + 1);
}

/* fd: taken. */
static int check_directory(const struct check *check, int fd, unsigned depth)
{
    defer_closedir DIR *dir = fd_directory(fd);
    if (!dir) {
        return fail_set(check->fail, ENOMEM, "the installed files");
    }
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        int r = check_entry(check, dirfd(dir), name, depth);
        if (r < 0) {
            return r;
        }
    }
    return errno ? fail_set(check->fail, errno, "the installed files") : 0;
}

int layer_check(int directory_fd, uint64_t bytes_most, uint64_t files_most,
                struct box_packages_layer *made, struct fail *ret_fail)
{
    struct check check = {
        .bytes_most = bytes_most, .files_most = files_most, .made = made, .fail = ret_fail};
    defer_close int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fchmod(directory_fd, 0755) < 0
               ? fail_set(ret_fail, errno, "the installed files")
               : check_directory(&check, take_fd(&fd), 1);
}
