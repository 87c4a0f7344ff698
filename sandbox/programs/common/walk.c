/* Opens a name like openat2(2) with RESOLVE_NO_MAGICLINKS, also where that call is refused. There
 * it walks the name component by component, and the kernel never follows a symlink: the symlink's
 * text is read and walked in the same way. So a magic link of /proc, which leads to an object and
 * not to a name, has no effect. Names may change during the walk: each step starts at a held
 * descriptor, and the caller checks what the last step opens. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/programs/common/walk.h"

enum {
    WALK_LINKS = 40,    /* as the kernel, path_resolution(7) */
    WALK_PROC_ROOT = 1, /* inode of the root of a proc file system; its symlinks are plain ones */
    WALK_ON = -10000,   /* not an errno: the walk continues */
};

struct walk {
    int at; /* the current directory of the walk, owned */
    unsigned links;
    char rest[2 * PATH_MAX]; /* what is still to be walked */
};

/* Whether the kernel has the call and allows it: it checks the size first. */
static bool has_openat2(void)
{
    static int has = -1;
    if (has < 0) {
        has = syscall(SYS_openat2, -1, "", NULL, (size_t)0) < 0 && errno == EINVAL;
    }
    return has;
}

static int open_whole(int dir_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)flags,
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

/* Replaces the current directory of the walk. */
static int step_into(struct walk *walk, int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    own_close(&walk->at);
    walk->at = fd;
    return 0;
}

/* Puts the symlink's text before rest, which is empty or begins with a slash. WALK_ON, -EINVAL when
 * name is not a symlink, or another -errno. */
static int expand_link(struct walk *walk, const char *name, const char *rest)
{
    char text[2 * PATH_MAX];
    struct statfs fs;
    struct stat st;
    size_t rest_size = strlen(rest) + 1;
    ssize_t size = readlinkat(walk->at, name, text, PATH_MAX);
    if (size < 0) {
        return -errno;
    }
    if (size == 0) {
        return -ENOENT;
    }
    if (size == PATH_MAX || (size_t)size + rest_size > sizeof text) {
        return -ENAMETOOLONG;
    }
    /* A symlink is in the file system of its directory. */
    if (fstatfs(walk->at, &fs) < 0 || fstat(walk->at, &st) < 0) {
        return -errno;
    }
    bool magic = fs.f_type == PROC_SUPER_MAGIC && st.st_ino != WALK_PROC_ROOT;
    if (magic || ++walk->links > WALK_LINKS) {
        return -ELOOP;
    }
    memcpy(text + size, rest, rest_size);
    memcpy(walk->rest, text, (size_t)size + rest_size);
    int r = text[0] == '/' ? step_into(walk, AT_FDCWD, "/") : 0;
    return r < 0 ? r : WALK_ON;
}

/* Whether an attempt to open name met a symlink: O_PATH opens the symlink itself, open(2). */
static bool met_link(int fd, int error, int flags)
{
    struct stat st;
    if (flags & O_NOFOLLOW) {
        return false;
    }
    if (fd < 0) {
        return error == ELOOP || error == ENOTDIR;
    }
    return flags & O_PATH && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Opens the last name of all, or expands it if it is a symlink. */
static int open_last(struct walk *walk, const char *name, int flags, mode_t mode)
{
    int fd = openat(walk->at, name, flags | O_NOFOLLOW, mode);
    int error = fd < 0 ? errno : 0;
    if (!met_link(fd, error, flags)) {
        return fd < 0 ? -error : fd;
    }
    own_close(&fd);
    int r = expand_link(walk, name, "");
    if (r != -EINVAL) {
        return r;
    }
    /* Not a symlink, or replaced meanwhile. */
    return error == ENOTDIR || ++walk->links > WALK_LINKS ? -ENOTDIR : WALK_ON;
}

/* Walks one component of the rest. Returns the descriptor of the last one, WALK_ON, or -errno. */
static int walk_step(struct walk *walk, int flags, mode_t mode)
{
    char name[NAME_MAX + 1] = ".";
    const char *from = walk->rest + strspn(walk->rest, "/");
    size_t size = strcspn(from, "/");
    const char *rest = from + size;
    if (size >= sizeof name) {
        return -ENAMETOOLONG;
    }
    if (size > 0) {
        memcpy(name, from, size);
        name[size] = '\0';
    }
    if (!*rest) {
        return open_last(walk, name, flags, mode);
    }
    int r = step_into(walk, walk->at, name);
    if (r == -ENOTDIR || r == -ELOOP) {
        int expanded = expand_link(walk, name, rest);
        return expanded == -EINVAL ? r : expanded;
    }
    if (r < 0) {
        return r;
    }
    memmove(walk->rest, rest, strlen(rest) + 1);
    return WALK_ON;
}

static int open_by_steps(int dir_fd, const char *path, int flags, mode_t mode)
{
    static struct walk walk;
    size_t size = strlen(path) + 1;
    if (size == 1) {
        return -ENOENT;
    }
    if (size > PATH_MAX) {
        return -ENAMETOOLONG;
    }
    walk = (struct walk){.at = -1};
    memcpy(walk.rest, path, size);
    int r = path[0] == '/' ? step_into(&walk, AT_FDCWD, "/") : step_into(&walk, dir_fd, ".");
    if (r < 0) {
        return r;
    }
    do {
        r = walk_step(&walk, flags, mode);
    } while (r == WALK_ON);
    (void)close(walk.at);
    return r;
}

int walk_open(int dir_fd, const char *path, int flags, mode_t mode)
{
    /* O_PATH only marks the place, and openat2 refuses flags that mean more. */
    flags |= flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY;
    return has_openat2() ? open_whole(dir_fd, path, flags, mode)
                         : open_by_steps(dir_fd, path, flags, mode);
}
