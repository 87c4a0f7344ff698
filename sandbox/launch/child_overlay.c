/* The overlay of a copy-on-write workspace. Runs in the child's user namespace, where Linux 5.11
 * and newer can mount one; with "userxattr", as trusted.* attributes need the host's
 * CAP_SYS_ADMIN. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/launch/child.h"

enum { LOCK_TRIES = 150, LOCK_PAUSE_MS = 20 };

/* Two live overlays with one upper layer are undefined. The sandbox of a server that was killed may
 * live for another moment. Init keeps the descriptor and with it the lock. */
static int lock(int fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return 0;
        }
        if (errno != EWOULDBLOCK) {
            return -1;
        }
        (void)nanosleep(&pause, NULL);
    }
    errno = EBUSY;
    return -1;
}

/* Without extended attributes or whiteouts the kernel mounts an overlay that cannot replace or
 * remove directories: ovl_make_workdir() in fs/overlayfs/super.c. */
static int check_features(int changes_fd)
{
    static const char name[] = "work/.features";
    static const char moved[] = "work/.moved";
    for (unsigned i = 0; i < 2; i++) { /* what a killed process has left */
        (void)unlinkat(changes_fd, i ? name : moved, AT_REMOVEDIR);
        (void)unlinkat(changes_fd, i ? name : moved, 0);
    }
    int r = mkdirat(changes_fd, name, 0700);
    defer_close int fd =
        r < 0 ? -1 : openat(changes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool has = fd >= 0 && fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0 &&
               renameat2(changes_fd, name, changes_fd, moved, RENAME_WHITEOUT) == 0;
    int error = r == 0 && errno != ENOSPC && errno != EDQUOT ? EOPNOTSUPP : errno;
    (void)unlinkat(changes_fd, name, has ? 0 : AT_REMOVEDIR);
    (void)unlinkat(changes_fd, moved, AT_REMOVEDIR);
    return has ? 0 : (errno = error, -1);
}

/* The merged root shows the upper layer's mode. */
static int make_upper(int changes_fd, int lower_fd, int *ret_fd)
{
    struct stat st;
    if ((mkdirat(changes_fd, "upper", 0755) < 0 && errno != EEXIST) ||
        (mkdirat(changes_fd, "work", 0700) < 0 && errno != EEXIST) || fstat(lower_fd, &st) < 0) {
        return -1;
    }
    int fd = openat(changes_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    *ret_fd = fd;
    return fchmod(fd, st.st_mode & 0777);
}

int child_overlay(const struct plan_step *step, bool in_store, struct child_layers *layers)
{
    char options[PATH_MAX];
    const char *source = step->source + 1; /* the new root is the working directory */
    const char *target = step->target + 1;
    (void)snprintf(options, sizeof options, "%s/changes", source);
    defer_close int changes_fd = open(options, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(options, sizeof options, "%s/lower", source);
    layers->lower_fd = open(options, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (changes_fd < 0 || layers->lower_fd < 0 || (in_store && lock(changes_fd) < 0) ||
        make_upper(changes_fd, layers->lower_fd, &layers->upper_fd) < 0 ||
        check_features(changes_fd) < 0 || (mkdir(target, 0755) < 0 && errno != EEXIST)) {
        return -1;
    }
    /* Without an index, the upper layer need not have been made with this very lower one. */
    (void)snprintf(options, sizeof options,
                   "lowerdir=%1$s/lower,upperdir=%1$s/changes/upper,workdir=%1$s/changes/work,"
                   "userxattr,index=off",
                   source);
    if (mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options) < 0) {
        return -1;
    }
    layers->store_fd = in_store ? take_fd(&changes_fd) : -1;
    layers->overlay_fd = (int)syscall(SYS_fspick, AT_FDCWD, target, FSPICK_CLOEXEC);
    return 0;
}
