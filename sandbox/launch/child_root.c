/* The child's steps that build the new root and switch to it; child.c has the others. */
#include "sandbox/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/plan/plan.h"
#include "sandbox/workspace/protected.h"

/* The overlay of a copy-on-write workspace. Runs in the child's user namespace, where Linux 5.11
 * and newer can mount one; with "userxattr", as trusted.* attributes need the host's
 * CAP_SYS_ADMIN. */

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

/* PLAN_OVERLAY. in_store: the upper layer outlives the sandbox; then waits until no other sandbox
 * uses it. 0, or -1 with errno: ENODEV, no overlayfs; EOPNOTSUPP, the upper layer's file system
 * lacks what an overlay needs; EBUSY, another sandbox has the layer; others are mount(2)'s. */
static int step_overlay(struct child *child, const struct plan_step *step)
{
    struct child_layers *layers = &child->layers;
    bool in_store = child->setup->plan->cow == WIRE_COW_STORE;
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

/* Pseudo-terminals of the sandbox's own, devpts(4): another instance, so no terminal of the host is
 * in it. The slaves have no permissions and the mount is read-only, so that nobody can open one by
 * name or change that: only the holder of the master gets its slave (TIOCGPTPEER, as openpty(3) of
 * glibc 2.27 does), and sessions, which have the same id, cannot reach each other's.
 *
 * The kernel wants an id 0 to own /dev/pts/ptmx (mknod_ptmx() in fs/devpts/inode.c), and the
 * sandbox has none. So a process in a user namespace below makes the file system: there, the
 * sandbox's id is 0. It works while the child builds the root, and ends before any guest exists;
 * nobody can enter that namespace, which only the file system keeps. */

enum { NO_DESCRIPTOR = 255 };

/* max: what a terminal buffers (64 KiB each way) counts for no control group, tty_buffer.c. */
static const char options[] = "newinstance,ptmxmode=666,mode=0,max=32";

static bool become_root(void)
{
    char map[32];
    (void)snprintf(map, sizeof map, "0 %d 1", PLAN_INSIDE_ID);
    return fd_write_text_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
           fd_write_text_at(AT_FDCWD, "/proc/self/uid_map", map) == 0 &&
           fd_write_text_at(AT_FDCWD, "/proc/self/gid_map", map) == 0;
}

/* The mount's descriptor, or -1. The mount namespace that it is made in ends with this process, and
 * with it what the mount covers there. */
static int make(const char *path)
{
    if (!become_root() ||
        mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC | MS_RDONLY, options) < 0) {
        return -1;
    }
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* A directory that every host has and that is in no tree that the sandbox shows (a bind mount would
 * take the new root along). In the child's own mount namespace the disk is mounted over it, and
 * over that the new root. */
static const char root_at[] = "/dev";

/* PLAN_MAKE_TERMINALS: starts a process that makes a file system of pseudo-terminals that only the
 * sandbox has, while the child may make namespaces. The child sees no mount at the directory. */
static int step_make_terminals(struct child *child, const struct plan_step *)
{
    /* It shares the descriptors with this process, and exits with the number of one, without a
     * signal. */
    child->terminals = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_FILES, NULL,
                                      NULL, NULL, NULL);
    if (child->terminals == 0) {
        int fd = make(root_at);
        _exit(fd >= 0 && fd < NO_DESCRIPTOR ? fd : NO_DESCRIPTOR);
    }
    return 0;
}

/* Waits for that process. Returns the descriptor of its mount, which is in no namespace yet; or -1
 * and errno. */
static int terminals_take(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, __WALL) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) == NO_DESCRIPTOR) {
        errno = EPERM;
        return -1;
    }
    return WEXITSTATUS(status);
}

/* PLAN_PROTECT. Reports to the server with a struct fail with code 0 and a struct box_protected as
 * its text. 0, or -1 with errno. */
static int step_protect(struct child *child, const struct plan_step *step)
{
    const struct child_setup *setup = child->setup;
    struct box_protected *found = &child->found;
    struct fail reported = {};
    bool mounts = setup->plan->namespaces != 0;
    struct protect_root roots[PROTECT_ROOTS] = {};
    unsigned count = 0;
    const uint64_t rows = found->rows;
    for (unsigned i = 0; i < setup->plan->step_count && count < PROTECT_ROOTS; i++) {
        const struct plan_step *other = &setup->plan->steps[i];
        if (other->kind == PLAN_PROTECT) {
            /* While the new root is built, it is the working directory. */
            roots[count++] = (struct protect_root){mounts ? other->target + 1 : other->target,
                                                   mounts ? other->source : other->target};
            if (other == step) {
                struct protect_root first = roots[0];
                roots[0] = roots[count - 1];
                roots[count - 1] = first;
            }
        }
    }
    found->shared = setup->plan->workspace_shared;
    if (protect_directory(roots, count, setup->plan->allow_write, mounts, found) < 0) {
        return -1;
    }
    if (mounts && strcmp(step->target, "/work") != 0) {
        found->rows = rows; /* protected rows of the workspace */
    }
    _Static_assert(sizeof *found <= sizeof reported.text);
    memcpy(reported.text, found, sizeof *found);
    return write(setup->error_fd, &reported, sizeof reported) == (ssize_t)sizeof reported ? 0 : -1;
}

/* Targets are absolute in the plan; while the root is built, it is the working directory. */
const char *child_below_root(const char *target)
{
    return target[1] ? target + 1 : ".";
}

/* Makes the directories above path. */
static int make_parents(const char *path)
{
    char text[PATH_MAX];
    (void)snprintf(text, sizeof text, "%s", path);
    for (char *slash = strchr(text, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(text, 0755) < 0 && errno != EEXIST) {
            return -1;
        }
        *slash = '/';
    }
    return 0;
}

/* Most parents exist, so the function makes them only where they are missing. */
int child_make_directory(const char *path, unsigned mode)
{
    int r = mkdir(path, mode);
    if (r < 0 && errno == ENOENT && make_parents(path) == 0) {
        r = mkdir(path, mode);
    }
    return r < 0 && errno != EEXIST ? -1 : 0;
}

static int make_file(const char *path, int flags, unsigned mode)
{
    int fd = open(path, flags | O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0 && errno == ENOENT && make_parents(path) == 0) {
        fd = open(path, flags | O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    }
    return fd;
}

/* Whether the sandbox can do without a tree that could not be opened, for the reason in errno. If
 * the user's directory is gone, the reason does not matter: code finds that it does not exist. */
static bool is_passed_over(const struct plan_step *step)
{
    return step->data_directory || (step->optional && (errno == ENOENT || errno == EACCES));
}

/* Of a directory of the user's. */
static int open_user_tree(const struct plan_step *step)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    defer_close int held = fd_open_straight(step->source, O_PATH | O_DIRECTORY);
    if (held < 0) {
        errno = -held;
        return -1;
    }
    return (int)syscall(SYS_open_tree, held, "", step->is_layer ? flags : flags | AT_RECURSIVE);
}

static int step_open_tree(struct child *child, const struct plan_step *step)
{
    int fd = step->data_directory || step->is_layer
                 ? open_user_tree(step)
                 : (int)syscall(SYS_open_tree, AT_FDCWD, step->source,
                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    child->trees[step->slot] = fd;
    return fd < 0 && !is_passed_over(step) ? -1 : 0;
}

static int step_take_tree(struct child *child, const struct plan_step *step)
{
    int fd = child->setup->taken[step->slot];
    child->trees[step->slot] = fd < 0 && step->optional ? open_user_tree(step) : fd;
    return step->is_layer && child->trees[step->slot] < 0 ? -1 : 0;
}

static int step_private(struct child *child, const struct plan_step *)
{
    child->user_sysctl_fd = open("/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* The host's tree takes it along when it is unmounted: what is mounted from it keeps it. */
static int step_disk(struct child *child, const struct plan_step *step)
{
    if (mount("tmpfs", root_at, "tmpfs", MS_NOSUID | MS_NODEV, step->data) < 0) {
        return -1;
    }
    child->disk_fd = open(root_at, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return child->disk_fd < 0 ? -1 : 0;
}

/* The driver's files are one write each: in large folios it takes a fifth of the time. Older
 * kernels have them in files from 2 MiB on, and those without them refuse the option. */
static int step_root(struct child *, const struct plan_step *step)
{
    const unsigned long flags = MS_NOSUID | MS_NODEV;
    char large[128];
    (void)snprintf(large, sizeof large, "huge=within_size,%s", step->data);
    if (mount("tmpfs", root_at, "tmpfs", flags, large) < 0 &&
        mount("tmpfs", root_at, "tmpfs", flags, step->data) < 0) {
        return -1;
    }
    return chdir(root_at);
}

static int step_file(struct child *, const struct plan_step *step)
{
    defer_close int fd = make_file(child_below_root(step->target), O_EXCL, step->mode);
    if (fd < 0) {
        return -1;
    }
    int r = fd_write_all(fd, step->content, step->content_size);
    return r < 0 ? (errno = -r, -1) : 0;
}

static int step_link(struct child *, const struct plan_step *step)
{
    const char *path = child_below_root(step->target);
    return make_parents(path) < 0 ? -1 : symlink(step->source, path);
}

int child_move_tree(int tree_fd, const char *path, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
    /* A tree from the host keeps the flags that the host has locked on it; this step only adds
     * flags. */
    if (syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) <
        0) {
        return -1;
    }
    return (int)syscall(SYS_move_mount, tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
}

/* Makes a mount point at path for a tree or a bind mount: a file or directory, like source_fd. */
static int make_place(int source_fd, const char *path)
{
    struct stat st;
    if (fstat(source_fd, &st) < 0) {
        return -1;
    }
    if (S_ISDIR(st.st_mode)) {
        return child_make_directory(path, 0755);
    }
    int fd = make_file(path, O_NOFOLLOW, 0444);
    return fd < 0 ? -1 : close(fd);
}

static int step_move(struct child *child, const struct plan_step *step)
{
    const char *path = child_below_root(step->target);
    int tree_fd = child->trees[step->slot];
    if (tree_fd < 0) {
        return 0; /* optional, and missing */
    }
    return make_place(tree_fd, path) < 0 ? -1 : child_move_tree(tree_fd, path, step->attributes);
}

static int step_subtree(struct child *child, const struct plan_step *step)
{
    const char *path = child_below_root(step->target);
    bool of_disk = step->source != NULL;
    if ((of_disk && mkdirat(child->disk_fd, step->source, 0755) < 0) ||
        child_make_directory(path, 0755) < 0) {
        return -1;
    }
    defer_close int fd = (int)syscall(SYS_open_tree, of_disk ? child->disk_fd : AT_FDCWD,
                                      of_disk ? step->source : path,
                                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return fd < 0 ? -1 : child_move_tree(fd, path, step->attributes);
}

static int step_cover(struct child *, const struct plan_step *step)
{
    defer_close int fd = (int)syscall(SYS_open_tree, AT_FDCWD, child_below_root(step->source),
                                      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    return fd < 0 ? -1 : child_move_tree(fd, child_below_root(step->target), step->attributes);
}

static int step_read_only_root(struct child *, const struct plan_step *)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, ".", 0, &attr, sizeof attr);
}

static int step_pivot(struct child *, const struct plan_step *)
{
    char cwd[PATH_MAX];
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/work") < 0) {
        return -1;
    }
    /* CVE-2024-21626: a working directory outside the root would be an escape. */
    if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/') {
        errno = EXDEV;
        return -1;
    }
    return 0;
}

static int step_directory(struct child *, const struct plan_step *step)
{
    return child_make_directory(child_below_root(step->target), step->mode);
}

/* A container's filter, or a kernel without pseudo-terminals, may refuse them; then /dev/pts is
 * empty. The root is the new one. */
static int step_terminals(struct child *child, const struct plan_step *step)
{
    defer_close int fd = child->terminals < 0 ? -1 : terminals_take(child->terminals);
    int r = fd < 0 ? -1
                   : (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, step->target,
                                  MOVE_MOUNT_F_EMPTY_PATH);
    return r < 0 && step->optional ? 0 : r;
}

/* Init has the file system without a name by which others could reach it. */
static int step_keep(struct child *child, const struct plan_step *step)
{
    child->output_fd = openat(child->disk_fd, step->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return child->output_fd < 0 ? -1 : 0;
}

/* What has descriptors of the mount, or is mounted from it, keeps it. */
static int step_hide(struct child *, const struct plan_step *step)
{
    return umount2(child_below_root(step->target), MNT_DETACH);
}

const child_step_fn child_root_steps[PLAN_KIND_COUNT] = {
    [PLAN_OPEN_TREE] = step_open_tree,
    [PLAN_TAKE_TREE] = step_take_tree,
    [PLAN_PRIVATE] = step_private,
    [PLAN_DISK] = step_disk,
    [PLAN_ROOT] = step_root,
    [PLAN_DIRECTORY] = step_directory,
    [PLAN_FILE] = step_file,
    [PLAN_LINK] = step_link,
    [PLAN_MOVE] = step_move,
    [PLAN_SUBTREE] = step_subtree,
    [PLAN_COVER] = step_cover,
    [PLAN_OVERLAY] = step_overlay,
    [PLAN_HIDE] = step_hide,
    [PLAN_PROTECT] = step_protect,
    [PLAN_PROC] = child_proc,
    [PLAN_PROCESSORS] = child_processors,
    [PLAN_MAKE_TERMINALS] = step_make_terminals,
    [PLAN_TERMINALS] = step_terminals,
    [PLAN_KEEP] = step_keep,
    [PLAN_READ_ONLY_ROOT] = step_read_only_root,
    [PLAN_PIVOT] = step_pivot,
};
