/* Calls that change files in the workspace: see notify.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/common/tags.h"
#include "sandbox/programs/init/supervisor/notify_call.h"
#include "sandbox/protocol/keeper_protocol.h"

enum { NONE = -1, OUTSIDE = 1, LINKS_MOST = 40 /* as the kernel follows, path_resolution(7) */ };

/* The last name of a path may be a symlink. */
enum follow { ITSELF, FOLLOWED, BY_FLAGS };

/* Where a call has what it touches: the numbers of its arguments. */
struct row {
    int number;
    enum wire_touch_op op;
    int directory; /* NONE: the current one */
    int path;      /* NONE: the directory is the object */
    enum follow follow;
    int flags; /* of open(2), or AT_* */
    int to;    /* of a rename the new path, of a new hard link the old one, */
    int to_directory;
};

static const struct row rows[] = {
#ifdef SYS_open /* 64-bit ARM has only the newer of these calls */
    {SYS_open, WIRE_TOUCH_WRITE, NONE, 0, BY_FLAGS, 1, NONE, NONE},
    {SYS_creat, WIRE_TOUCH_WRITE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_rename, WIRE_TOUCH_RENAME, NONE, 0, ITSELF, NONE, 1, NONE},
    {SYS_link, WIRE_TOUCH_LINK, NONE, 1, ITSELF, NONE, 0, NONE},
    {SYS_symlink, WIRE_TOUCH_CREATE, NONE, 1, ITSELF, NONE, NONE, NONE},
    {SYS_unlink, WIRE_TOUCH_REMOVE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_rmdir, WIRE_TOUCH_REMOVE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_mkdir, WIRE_TOUCH_CREATE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_mknod, WIRE_TOUCH_CREATE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_chmod, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_chown, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_lchown, WIRE_TOUCH_ATTRIBUTE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_utime, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_utimes, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_futimesat, WIRE_TOUCH_ATTRIBUTE, 0, 1, FOLLOWED, NONE, NONE, NONE},
#endif
#ifdef SYS_renameat
    {SYS_renameat, WIRE_TOUCH_RENAME, 0, 1, ITSELF, NONE, 3, 2},
#endif
    {SYS_openat, WIRE_TOUCH_WRITE, 0, 1, BY_FLAGS, 2, NONE, NONE},
    {SYS_truncate, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_renameat2, WIRE_TOUCH_RENAME, 0, 1, ITSELF, 4, 3, 2},
    {SYS_linkat, WIRE_TOUCH_LINK, 2, 3, ITSELF, NONE, 1, 0},
    {SYS_symlinkat, WIRE_TOUCH_CREATE, 1, 2, ITSELF, NONE, NONE, NONE},
    {SYS_unlinkat, WIRE_TOUCH_REMOVE, 0, 1, ITSELF, NONE, NONE, NONE},
    {SYS_mkdirat, WIRE_TOUCH_CREATE, 0, 1, ITSELF, NONE, NONE, NONE},
    {SYS_mknodat, WIRE_TOUCH_CREATE, 0, 1, ITSELF, NONE, NONE, NONE},
    {SYS_fchmod, WIRE_TOUCH_ATTRIBUTE, 0, NONE, ITSELF, NONE, NONE, NONE},
    {SYS_fchmodat, WIRE_TOUCH_ATTRIBUTE, 0, 1, FOLLOWED, NONE, NONE, NONE},
    {SYS_fchown, WIRE_TOUCH_ATTRIBUTE, 0, NONE, ITSELF, NONE, NONE, NONE},
    {SYS_fchownat, WIRE_TOUCH_ATTRIBUTE, 0, 1, BY_FLAGS, 4, NONE, NONE},
    {SYS_utimensat, WIRE_TOUCH_ATTRIBUTE, 0, 1, BY_FLAGS, 3, NONE, NONE},
    {SYS_setxattr, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_lsetxattr, WIRE_TOUCH_ATTRIBUTE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_fsetxattr, WIRE_TOUCH_ATTRIBUTE, 0, NONE, ITSELF, NONE, NONE, NONE},
    {SYS_removexattr, WIRE_TOUCH_ATTRIBUTE, NONE, 0, FOLLOWED, NONE, NONE, NONE},
    {SYS_lremovexattr, WIRE_TOUCH_ATTRIBUTE, NONE, 0, ITSELF, NONE, NONE, NONE},
    {SYS_fremovexattr, WIRE_TOUCH_ATTRIBUTE, 0, NONE, ITSELF, NONE, NONE, NONE},
};

/* --- the place that a path names --- */

/* The part of the path of a held object, or of a name in it, that is below the workspace. 0,
 * OUTSIDE, or -EPERM: it is too long to be known. */
static int below_work(const struct notify *notify, int object_fd, const char *name,
                      char place[LIMIT_PATH_BYTES])
{
    static char path[PATH_MAX + NAME_MAX + 2];
    static char work[PATH_MAX];
    if (fd_path(object_fd, path) < 0 || fd_path(notify->touch.work_fd, work) < 0) {
        return -EPERM;
    }
    if (*name) {
        (void)snprintf(path + strlen(path), NAME_MAX + 2, "/%s", name);
    }
    size_t root = strlen(work);
    bool is_below = strncmp(path, work, root) == 0 && path[root] == '/';
    size_t size = is_below ? strlen(path + root + 1) : 0;
    if (size == 0 || size >= LIMIT_PATH_BYTES) {
        return is_below ? -EPERM : OUTSIDE;
    }
    memcpy(place, path + root + 1, size + 1);
    return 0;
}

/* Cuts the last name off, which then is at *name. False: a path without one, such as "..". */
static bool cut_name(char *path, const char **directory, const char **name)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') {
        path[--size] = '\0';
    }
    char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    *directory = !slash ? "." : slash == path ? "/" : path;
    if (slash) {
        *slash = '\0';
    }
    return **name && strcmp(*name, ".") != 0 && strcmp(*name, "..") != 0 &&
           strlen(*name) <= NAME_MAX;
}

/* A directory that is held, and a name in it. */
struct named {
    int parent_fd;
    const char *name;
};

/* Follows the last name while it is a symlink. path: scratch. 0 or -errno; -ELOOP: one of /proc */
static int follow_links(const struct notify_call *call, struct named *named, char path[PATH_MAX])
{
    char link[PATH_MAX];
    for (unsigned i = 0; i < LINKS_MOST; i++) {
        ssize_t size = readlinkat(named->parent_fd, named->name, link, sizeof link - 1);
        if (size < 0) {
            return errno == EINVAL || errno == ENOENT ? 0 : -errno;
        }
        link[size] = '\0';
        if (caller_own_descriptor(call, link) >= 0) {
            return -ELOOP; /* as one of /proc */
        }
        memcpy(path, link, (size_t)size + 1);
        const char *directory = NULL;
        if (!cut_name(path, &directory, &named->name)) {
            return -ENOENT;
        }
        int fd = fd_open_named(named->parent_fd, directory, O_PATH, /* mode= */ 0);
        if (fd < 0) {
            return fd;
        }
        (void)close(named->parent_fd);
        named->parent_fd = fd;
    }
    return -ELOOP;
}

/* A call that fails changes nothing, and nobody reports that it has failed: so what names and modes
 * tell is checked before. Whether names can be made or removed there. */
static bool can_change_names(int directory_fd)
{
    return faccessat(directory_fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
}

/* The same of open(2). */
static bool opens(const struct notify_call *call, const struct named *named, int flags)
{
    struct stat st;
    if (fstatat(named->parent_fd, named->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return (flags & O_CREAT) && can_change_names(named->parent_fd) && caller_has_space(call);
    }
    bool refuses = (flags & O_CREAT) && (flags & O_EXCL);
    return !refuses && S_ISREG(st.st_mode) &&
           faccessat(named->parent_fd, named->name, W_OK, AT_EACCESS) == 0;
}

static int place_of_descriptor(const struct notify_call *call, int number,
                               char place[LIMIT_PATH_BYTES])
{
    defer_close int fd = caller_descriptor(call, number);
    struct stat st;
    /* A file without a name changes nothing that has one. */
    return fd < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0
               ? -ENOENT
               : below_work(call->notify, fd, "", place);
}

/* The mount that a held directory lies in: no rename leads to another one. 0: not known. */
static uint64_t mount_of(int directory_fd)
{
    struct statx st;
    return statx(directory_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 &&
                   st.stx_mask & STATX_MNT_ID
               ? st.stx_mnt_id
               : 0;
}

/* How a call reaches what it touches. */
struct reach {
    enum wire_touch_op op;
    bool follow;
    int flags;       /* of open(2) */
    uint64_t *mount; /* out, of a rename; or NULL */
};

static bool can(const struct notify_call *call, const struct reach *reach,
                const struct named *named)
{
    return reach->op == WIRE_TOUCH_ATTRIBUTE ||
           (reach->op == WIRE_TOUCH_WRITE ? opens(call, named, reach->flags)
                                          : can_change_names(named->parent_fd));
}

/* Whether the path names an object by no name of its own: "", as with AT_EMPTY_PATH, "." or "..".
 */
static bool is_nameless(const char *path)
{
    const char *last = path_last(path);
    return !*path || strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
}

/* The place that the path of a call names, relative to the workspace. 0, OUTSIDE, or negative: the
 * call will fail. */
static int place_of(const struct notify_call *call, int directory, uint64_t address,
                    const struct reach *reach, char place[LIMIT_PATH_BYTES])
{
    static char path[PATH_MAX];
    struct named named = {.parent_fd = -1};
    const char *parent = NULL;
    int r = caller_read_path(call, address, path);
    int number = r < 0 ? -1 : caller_own_descriptor(call, path);
    if (r < 0 || number >= 0) {
        return r < 0 ? r : place_of_descriptor(call, number, place);
    }
    bool absolute = path[0] == '/';
    if (reach->op == WIRE_TOUCH_ATTRIBUTE && is_nameless(path)) {
        defer_close int fd =
            *path ? caller_open(call, directory, path, false) : caller_descriptor(call, directory);
        return fd < 0 ? fd : below_work(call->notify, fd, "", place);
    }
    if (!cut_name(path, &parent, &named.name)) {
        return -ENOENT;
    }
    named.parent_fd = caller_open(call, absolute ? AT_FDCWD : directory, parent, false);
    if (named.parent_fd < 0) {
        return named.parent_fd;
    }
    r = reach->follow ? follow_links(call, &named, path) : 0;
    if (r == 0 && reach->mount) {
        *reach->mount = mount_of(named.parent_fd);
    }
    if (r == 0) {
        r = below_work(call->notify, named.parent_fd, named.name, place);
        r = r || can(call, reach, &named) ? r : -EACCES;
    }
    (void)close(named.parent_fd);
    return r;
}

/* --- what is touched --- */

static int argument(const struct notify_call *call, int which)
{
    return which == NONE ? AT_FDCWD : (int)call->arguments[which];
}

static const struct row *row_of(int number)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number == number) {
            return &rows[i];
        }
    }
    return NULL;
}

bool writes_has(int number)
{
    return row_of(number) != NULL;
}

/* What the call's flags say. Returns false where it changes no file. */
static bool read_flags(const struct notify_call *call, const struct row *row, struct reach *reach)
{
    int flags = row->flags == NONE ? 0 : (int)call->arguments[row->flags];
    *reach = (struct reach){.op = row->op, .follow = row->follow == FOLLOWED};
    if (row->op == WIRE_TOUCH_WRITE) {
        flags = row->flags == NONE ? O_WRONLY | O_CREAT | O_TRUNC : flags;
        reach->follow = !(flags & O_NOFOLLOW) && !((flags & O_CREAT) && (flags & O_EXCL));
        reach->flags = flags;
        return !(flags & (O_PATH | O_DIRECTORY)); /* as O_TMPFILE has: without a name */
    }
    if (row->follow == BY_FLAGS) {
        reach->follow = !(flags & AT_SYMLINK_NOFOLLOW);
    }
    return true;
}

/* Writes both places of a rename, and corrects what it is where one is outside. */
static int places_of_rename(const struct notify_call *call, const struct row *row,
                            struct wire_touch *touch, size_t *size)
{
    char *target = touch->paths;
    const uint64_t *a = call->arguments;
    uint64_t mounts[2] = {};
    struct reach reach = {.op = row->op, .mount = &mounts[0]};
    int r = place_of(call, argument(call, row->directory), a[row->path], &reach, touch->paths);
    bool from = r == 0;
    target += from ? strlen(touch->paths) + 1 : 0;
    reach.mount = &mounts[1];
    r = r < 0 ? r : place_of(call, argument(call, row->to_directory), a[row->to], &reach, target);
    bool to = r == 0;
    if (r < 0 || (!from && !to) || mounts[0] != mounts[1]) {
        return r < 0 ? r : -EXDEV;
    }
    bool exchanges = row->flags != NONE && a[row->flags] & RENAME_EXCHANGE;
    touch->op = from && to ? exchanges ? WIRE_TOUCH_EXCHANGE : WIRE_TOUCH_RENAME
                : from     ? WIRE_TOUCH_REMOVE
                           : WIRE_TOUCH_BRING;
    *size = (size_t)(target - touch->paths) + (to ? strlen(target) + 1 : 0);
    return 0;
}

/* Ends what was written with all NULs that a message has. */
static size_t end_paths(struct wire_touch *touch, size_t size, unsigned count)
{
    for (; count < WIRE_TOUCH_PATHS; count++) {
        touch->paths[size++] = '\0';
    }
    return size;
}

/* Writes what the call touches. Returns the size of the paths, or 0: nothing. */
static size_t touch_of(const struct notify_call *call, struct wire_touch *touch)
{
    const struct row *row = row_of(call->number);
    struct reach reach;
    size_t size = 0;
    if (!row || !read_flags(call, row, &reach)) {
        return 0;
    }
    int r = 0;
    touch->op = row->op;
    if (row->op == WIRE_TOUCH_RENAME) {
        r = places_of_rename(call, row, touch, &size);
    } else {
        uint64_t path = row->path == NONE ? 0 : call->arguments[row->path];
        int directory = argument(call, row->directory);
        r = path ? place_of(call, directory, path, &reach, touch->paths)
                 : place_of_descriptor(call, directory, touch->paths);
        size = r == 0 ? strlen(touch->paths) + 1 : 0;
    }
    unsigned count = touch->op == WIRE_TOUCH_RENAME || touch->op == WIRE_TOUCH_EXCHANGE ? 2 : 1;
    if (r == 0 && row->op == WIRE_TOUCH_LINK) {
        reach.op = WIRE_TOUCH_ATTRIBUTE;
        if (place_of(call, argument(call, row->to_directory), call->arguments[row->to], &reach,
                     touch->paths + size) == 0) {
            size += strlen(touch->paths + size) + 1;
            count = 2;
        }
    }
    /* It has set-ids, or its file cannot be read, ptrace(2); a symlink of /proc is not followed. */
    if (r == -EPERM || r == -ELOOP) {
        touch->op = WIRE_TOUCH_UNKNOWN;
        return end_paths(touch, 0, 0);
    }
    return r == 0 ? end_paths(touch, size, count) : 0;
}

/* --- waiting for the keeper --- */

static struct notify_call call_of(struct notify *notify, const struct notify_touch *touch)
{
    struct notify_call call = {.notify = notify,
                               .listener_fd = touch->listener_fd,
                               .id = touch->id,
                               .tid = touch->tid,
                               .number = touch->number};
    memcpy(call.arguments, touch->arguments, sizeof call.arguments);
    return call;
}

static void touch_free(struct notify *notify, struct notify_touch *touch)
{
    notify->touch.unsent -= !touch->sent;
    *touch = (struct notify_touch){};
    while (notify->touch.most > 0 && !notify->touch.waiting[notify->touch.most - 1].listener_fd) {
        notify->touch.most--;
    }
}

/* Returns whether the keeper is notified, now or later. */
static bool touch_send(struct notify *notify, struct notify_touch *waiting)
{
    static struct wire_touch touch;
    struct tags tags = {};
    const struct notify_call call = call_of(notify, waiting);
    if (tags_of(call.tid, &tags) < 0 || tags.cell == 0 || tags.cell > UINT32_MAX) {
        return false; /* between calls */
    }
    touch.state = (uint32_t)tags.cell;
    touch.thread = (uint32_t)call.tid;
    touch.number = (uint32_t)(waiting - notify->touch.waiting);
    touch.answers = notify->touch.answers[touch.number];
    size_t size = touch_of(&call, &touch);
    if (size == 0) {
        return false;
    }
    ssize_t sent = send(notify->touch.fd, &touch, offsetof(struct wire_touch, paths) + size,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    bool full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
    notify->touch.unsent += full && waiting->sent;
    notify->touch.unsent -= !full && !waiting->sent;
    waiting->sent = !full;
    return sent > 0 || full;
}

/* The call goes on. */
static void release(struct notify *notify, struct notify_touch *touch)
{
    const struct notify_call call = call_of(notify, touch);
    uint32_t *answers = &notify->touch.answers[touch - notify->touch.waiting];
    touch_free(notify, touch);
    notify_carry_out(&call);
    __atomic_fetch_add(answers, 1, __ATOMIC_RELEASE);
}

/* The same where it need not wait, once the keeper is to know. */
static void release_ahead(struct notify *notify, struct notify_touch *touch)
{
    if (notify->touch.event_fd >= 0 && touch->sent) {
        (void)write(notify->touch.event_fd, &(uint64_t){1}, sizeof(uint64_t));
        release(notify, touch);
    }
}

bool writes_tell(const struct notify_call *call)
{
    struct notify *notify = call->notify;
    unsigned at = 0;
    while (at < NOTIFY_TOUCHES && notify->touch.waiting[at].listener_fd) {
        at++;
    }
    if (notify->touch.fd < 0 || at == NOTIFY_TOUCHES || !row_of(call->number)) {
        return false;
    }
    struct notify_touch *touch = &notify->touch.waiting[at];
    *touch = (struct notify_touch){.id = call->id,
                                   .listener_fd = call->listener_fd,
                                   .tid = call->tid,
                                   .number = call->number,
                                   .sent = true};
    memcpy(touch->arguments, call->arguments, sizeof touch->arguments);
    notify->touch.most = at < notify->touch.most ? notify->touch.most : at + 1;
    if (!touch_send(notify, touch)) {
        touch_free(notify, touch);
        return false;
    }
    release_ahead(notify, touch);
    return true;
}

static void keeper_has_gone(struct notify *notify)
{
    own_close(&notify->touch.fd);
    for (unsigned i = 0; i < NOTIFY_TOUCHES; i++) {
        if (notify->touch.waiting[i].listener_fd) {
            release(notify, &notify->touch.waiting[i]);
        }
    }
}

void writes_answered(struct notify *notify)
{
    uint32_t number = 0;
    ssize_t size = 0;
    while ((size = recv(notify->touch.fd, &number, sizeof number, MSG_DONTWAIT)) == sizeof number) {
        struct notify_touch *touch =
            number < NOTIFY_TOUCHES ? &notify->touch.waiting[number] : NULL;
        if (touch && touch->listener_fd && notify->touch.event_fd < 0) {
            release(notify, touch);
        }
    }
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        keeper_has_gone(notify);
        return;
    }
    for (unsigned i = 0; notify->touch.unsent > 0 && i < notify->touch.most; i++) {
        struct notify_touch *touch = &notify->touch.waiting[i];
        if (touch->listener_fd && !touch->sent) {
            if (touch_send(notify, touch)) {
                release_ahead(notify, touch);
            } else {
                release(notify, touch);
            }
        }
    }
}

void writes_forget(struct notify *notify, int listener_fd)
{
    for (unsigned i = 0; i < NOTIFY_TOUCHES; i++) {
        if (notify->touch.waiting[i].listener_fd == listener_fd) {
            touch_free(notify, &notify->touch.waiting[i]);
        }
    }
}
