/* What a path leads to, without ".", ".." and symlinks. Everything that the server does with the
 * path of a file that is to be written goes by this one; it is then opened through no symlink, so
 * whoever puts one in its way meanwhile gains nothing.
 *
 * Goes down name by name, as the kernel does: after a symlink, ".." is the directory above its
 * target. What does not exist can be made, so its names count as directories. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/common/reply.h"
#include "sandbox/programs/init/init.h"

enum { SYMLINKS_MOST = 40 }; /* as the kernel, path_resolution(7) */

struct walk {
    int fd;           /* the last part of text that exists */
    unsigned missing; /* how many names of text do not */
    unsigned symlinks;
    char text[2 * LIMIT_PATH_BYTES]; /* absolute; "" is the root */
    char rest[2 * LIMIT_PATH_BYTES]; /* what is still to come */
};

/* fd: taken, or -errno. */
static int walk_to(struct walk *walk, int fd)
{
    if (fd < 0) {
        return fd;
    }
    drop_fd(&walk->fd);
    walk->fd = fd;
    return 0;
}

static int walk_up(struct walk *walk)
{
    (void)path_cut_last(walk->text);
    if (walk->missing > 0) {
        walk->missing--;
        return 0;
    }
    return walk_to(walk, fd_open_named(walk->fd, "..", O_PATH | O_DIRECTORY, 0));
}

/* symlink_fd: the symlink that comes after text. */
static int walk_through(struct walk *walk, int symlink_fd)
{
    char target[LIMIT_PATH_BYTES];
    struct statfs fs;
    size_t size = strlen(walk->rest) + 1;
    ssize_t length = readlinkat(symlink_fd, "", target, sizeof target);
    if (length < 0 || fstatfs(symlink_fd, &fs) < 0) {
        return -errno;
    }
    if (fs.f_type == PROC_SUPER_MAGIC) {
        return -EACCES; /* through this process it would lead to init's own */
    }
    if (++walk->symlinks > SYMLINKS_MOST) {
        return -ELOOP;
    }
    if ((size_t)length + size > sizeof walk->rest || (size_t)length == sizeof target) {
        return -ENAMETOOLONG;
    }
    memmove(walk->rest + length, walk->rest, size);
    memcpy(walk->rest, target, (size_t)length);
    if (length > 0 && target[0] == '/') {
        walk->text[0] = '\0';
        return walk_to(walk, fd_open_named(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0));
    }
    return 0;
}

static int walk_down(struct walk *walk, const char *name)
{
    struct stat st;
    size_t used = strlen(walk->text);
    defer_close int fd = walk->missing ? -ENOENT : fd_open_beneath(walk->fd, name, O_PATH);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        return walk_through(walk, fd);
    }
    int size = snprintf(walk->text + used, sizeof walk->text - used, "/%s", name);
    if (size < 0 || used + (size_t)size >= sizeof walk->text) {
        return -ENAMETOOLONG;
    }
    if (fd == -ENOENT) {
        walk->missing++;
        return 0;
    }
    return walk_to(walk, fd < 0 ? fd : take_fd(&fd));
}

static int walk_all(struct walk *walk)
{
    char name[NAME_MAX + 1];
    bool is_directory = false; /* by how the path ends: "new/" is no name for a new file */
    int r = 0;
    while (r == 0) {
        size_t slashes = strspn(walk->rest, "/");
        size_t size = strcspn(walk->rest + slashes, "/");
        if (size == 0) {
            is_directory = is_directory || slashes > 0;
            return is_directory && walk->missing > 0 ? -EISDIR : 0;
        }
        if (size >= sizeof name) {
            return -ENAMETOOLONG;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)size, walk->rest + slashes);
        size += slashes;
        memmove(walk->rest, walk->rest + size, strlen(walk->rest + size) + 1);
        bool is_up = strcmp(name, "..") == 0;
        is_directory = is_up || strcmp(name, ".") == 0;
        if (is_up) {
            r = walk_up(walk);
        } else if (!is_directory) {
            r = walk_down(walk, name);
        }
    }
    return r;
}

void files_resolve(const struct init *init, const struct wire_request *request)
{
    static struct walk walk;
    bool is_absolute = request->path[0] == '/';
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    walk = (struct walk){.fd = -1};
    (void)snprintf(walk.rest, sizeof walk.rest, "%s", request->path);
    (void)snprintf(walk.text, sizeof walk.text, "%s", is_absolute ? "" : init->paths.work);
    int r = walk_to(&walk, fd_open_named(AT_FDCWD, is_absolute ? "/" : ".", O_PATH, 0));
    r = r ? r : walk_all(&walk);
    const char *inside = path_behind(walk.text, init->paths.work);
    const char *path = inside ? (*inside ? inside : ".") : walk.text[0] ? walk.text : "/";
    size_t size = strlen(path) + 1;
    r = r || size <= sizeof reply.path ? r : -ENAMETOOLONG;
    if (r == 0) {
        memcpy(reply.path, path, size);
    }
    drop_fd(&walk.fd);
    reply.error = -r;
    reply_send(&reply, -1);
}
