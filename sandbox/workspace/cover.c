/* Covers names with mounts over themselves, and follows symlinks and settings to their targets. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/state.h"

enum { HOPS = 16 };

const char *walk_keep(struct walk *walk, const char *directory, const char *name)
{
    char *path = walk->text + walk->text_used;
    size_t left = sizeof walk->text - walk->text_used;
    int size = snprintf(path, left, "%s%s%s", directory, *directory ? "/" : "", name);
    if (size < 0 || (size_t)size >= left) {
        walk->found->incomplete = true;
        return NULL;
    }
    walk->text_used += (size_t)size + 1;
    return path;
}

static int mount_over(int fd, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes};
    defer_close int tree_fd = (int)syscall(
        SYS_open_tree, fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
    if (tree_fd < 0 || syscall(SYS_mount_setattr, tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                               sizeof attr) < 0) {
        return -1;
    }
    return (int)syscall(SYS_move_mount, tree_fd, "", fd, "",
                        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* Whether the spot is covered already, or more strictly. Notes it if not. */
static bool is_covered(struct walk *walk, struct spot spot)
{
    for (unsigned i = 0; i < walk->covered_count; i++) {
        const struct spot *known = &walk->covered[i];
        if (known->root_fd == spot.root_fd && known->writable <= spot.writable &&
            strcmp(known->path, spot.path) == 0) {
            return true;
        }
    }
    if (walk->covered_count < COVERED) {
        walk->covered[walk->covered_count++] = spot;
    }
    return false;
}

int walk_cover(struct walk *walk, struct spot spot)
{
    uint64_t attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (spot.writable ? 0 : MOUNT_ATTR_RDONLY);
    defer_close int fd = fd_open_beneath(spot.root_fd, spot.path, O_PATH);
    if (fd < 0) {
        errno = ENOENT;
        return -1;
    }
    return walk->mounts ? mount_over(fd, attributes) : 0;
}

/* Calls walk_cover() once for each spot and keeps a failure in walk. Returns whether the spot was
 * uncovered. */
static bool cover_once(struct walk *walk, struct spot spot)
{
    if (!*spot.path || is_covered(walk, spot)) {
        return false;
    }
    if (walk_cover(walk, spot) < 0 && errno != ENOENT) {
        walk->error = errno;
    }
    return true;
}

/* Where code reaches a host path, which is absolute and has no symlinks; false: nowhere. */
static bool find_spot(const struct walk *walk, const char *host_path, struct spot *ret_spot)
{
    for (unsigned i = 0; i < walk->root_count; i++) {
        const char *path = path_behind(host_path, walk->roots[i].host);
        if (walk->root_fds[i] >= 0 && path) {
            *ret_spot = (struct spot){walk->root_fds[i], path, true};
            return true;
        }
    }
    return false;
}

/* at: the part of the path that is known to hold no symlink; rest: the part after it, replaced
 * where at ends in a symlink. */
struct course {
    char at[PATH_MAX];
    char rest[PATH_MAX];
    char link[PATH_MAX];
    unsigned hops;
};

/* Moves one component from rest to at. False: it does not exist. */
static bool step_over(struct walk *walk, struct course *course)
{
    struct spot spot;
    char *rest = course->rest + strspn(course->rest, "/");
    size_t size = strcspn(rest, "/");
    size_t used = strlen(course->at);
    bool last = rest[size + strspn(rest + size, "/")] == '\0';
    bool up = size == 2 && memcmp(rest, "..", 2) == 0;
    if (up) {
        path_cut_last(course->at);
    }
    if (up || size == 0 || (size == 1 && *rest == '.')) {
        memmove(course->rest, rest + size, strlen(rest + size) + 1);
        return true;
    }
    if (used + size + 2 > sizeof course->at) {
        return false;
    }
    (void)snprintf(course->at + used, sizeof course->at - used, "/%.*s", (int)size, rest);
    bool below = find_spot(walk, course->at, &spot) && *spot.path;
    defer_close int fd = below ? fd_open_beneath(spot.root_fd, spot.path, O_PATH)
                               : open(course->at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return false;
    }
    ssize_t got =
        S_ISLNK(st.st_mode) ? readlinkat(fd, "", course->link, sizeof course->link - 1) : 0;
    if (below && (got > 0 || (!last && S_ISDIR(st.st_mode)))) {
        spot.path = walk_keep(walk, "", spot.path);
        spot.writable = got == 0;
        if (!spot.path) {
            return false;
        }
        (void)cover_once(walk, spot);
    }
    if (got <= 0) {
        memmove(course->rest, rest + size, strlen(rest + size) + 1);
        return got == 0;
    }
    size_t left = strlen(rest + size);
    if (++course->hops > HOPS || (size_t)got + left + 2 > sizeof course->rest) {
        return false;
    }
    memmove(course->rest + got, rest + size, left + 1);
    memcpy(course->rest, course->link, (size_t)got);
    path_cut_last(course->at);
    course->at[course->link[0] == '/' ? 0 : strlen(course->at)] = '\0';
    return true;
}

/* The spot of a name of which the last parts do not exist. */
static bool note_missing(struct walk *walk, const struct course *course, struct spot *ret_spot)
{
    char path[PATH_MAX];
    const char *rest = course->rest + strspn(course->rest, "/");
    rest += strcspn(rest, "/"); /* at has this part already */
    int size = snprintf(path, sizeof path, "%s%s", course->at, rest);
    if (size < 0 || (size_t)size >= sizeof path || strstr(rest, "/..") ||
        !find_spot(walk, path, ret_spot)) {
        return false;
    }
    ret_spot->path = walk_keep(walk, "", ret_spot->path);
    return ret_spot->path != NULL;
}

bool walk_follow(struct walk *walk, const char *directory, const char *text, struct spot *ret_spot)
{
    static struct course course;
    course.hops = 0;
    int size = snprintf(course.at, sizeof course.at, "%s%s%s", walk->roots[0].host,
                        *directory ? "/" : "", directory);
    int rest_size = snprintf(course.rest, sizeof course.rest, "%s", text);
    if (size < 0 || rest_size < 0 || (size_t)size >= sizeof course.at ||
        (size_t)rest_size >= sizeof course.rest) {
        return false;
    }
    course.at[*text == '/' ? 0 : size] = '\0';
    while (course.rest[strspn(course.rest, "/")]) {
        if (!step_over(walk, &course)) {
            return walk->wants_missing && note_missing(walk, &course, ret_spot);
        }
    }
    if (!find_spot(walk, course.at, ret_spot)) {
        return false;
    }
    ret_spot->path = walk_keep(walk, "", ret_spot->path);
    return ret_spot->path != NULL;
}

bool walk_protect_named(struct walk *walk, const char *directory, const char *text,
                        struct spot *ret_spot)
{
    if (!walk_follow(walk, directory, text, ret_spot)) {
        return false;
    }
    ret_spot->writable = false;
    walk->found->names += cover_once(walk, *ret_spot);
    return true;
}

bool walk_protect(struct walk *walk, const char *path, bool writable, bool want_directory)
{
    struct stat st;
    struct spot spot;
    defer_close int fd = fd_open_beneath(walk->root_fd, path, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) != want_directory) {
        return false;
    }
    bool new = cover_once(walk, (struct spot){walk->root_fd, path, writable});
    if (S_ISLNK(st.st_mode) && walk_follow(walk, "", path, &spot)) {
        spot.writable = writable;
        (void)cover_once(walk, spot);
    }
    walk->found->names += new && !writable;
    return true;
}

void walk_protect_any(struct walk *walk, const char *path)
{
    if (!walk_protect(walk, path, /* writable= */ false, /* want_directory= */ true)) {
        (void)walk_protect(walk, path, /* writable= */ false, /* want_directory= */ false);
    }
}

/* Whether other sandboxes use a workspace: a walk may miss what they move. */

/* A directory is never open for writing, so nobody can hold a write lock on it; asking for one
 * reveals others' read locks. */
static struct flock lock_of(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0x73616e64, .l_len = 1};
}

int box_protected_join(const struct box_spec *spec)
{
    struct flock lock = lock_of(F_RDLCK);
    int fd = spec->workspace ? open(spec->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fcntl(fd, F_OFD_SETLK, &lock); /* if it fails, others are not noticed */
    }
    return fd;
}

bool box_protected_is_shared(int fd)
{
    struct flock lock = lock_of(F_WRLCK);
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void box_protected_leave(int *fd)
{
    struct flock lock = lock_of(F_UNLCK);
    if (*fd >= 0) {
        (void)fcntl(*fd, F_OFD_SETLK, &lock);
    }
    drop_fd(fd);
}
