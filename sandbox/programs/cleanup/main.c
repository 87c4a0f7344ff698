/* The cleanup helper removes what the kernel does not: a server's control groups and directories.
 *
 * The processes and mounts of a sandbox disappear with its init, also when the server is killed;
 * its control groups and directories stay until somebody removes them. So the server starts this
 * program outside the sandbox, in a process session of its own (a kill of the server's process
 * group does not reach it), and announces on a socket everything that is to be removed, before it
 * makes it (protocol/helper_protocol.h). When the socket ends, the server has exited: the helper
 * removes the rest.
 *
 * It also removes what servers have left that were killed together with their helpers.
 *
 *   sandpiper-cleanup     fd 3: the socket */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/helper_protocol.h"
#include "sandbox/protocol/packet.h"

/* --- removing a tree that hostile code has made ---
 *
 * A tree of thousands of nested directories must not cost a descriptor or a call frame per level,
 * and whoever moves directories meanwhile could misdirect a return by "..". So nothing descends:
 * subdirectories are moved up to the top, each once, under names of our own, until all are flat.
 * Every call is relative to a descriptor of a directory that was opened without following
 * symlinks. */

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Gives a directory the modes that its owner needs; a separate function, because chmod follows
 * symlinks. */
static void open_up(int parent_fd, const char *name)
{
    char path[32];
    struct stat st;
    defer_close int fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU) {
        (void)chmod(path, S_IRWXU);
    }
}

static DIR *open_directory(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, DIRECTORY);
    if (fd < 0 && errno == EACCES) {
        open_up(parent_fd, name);
        fd = openat(parent_fd, name, DIRECTORY);
    }
    return fd_directory(fd);
}

/* Moves a directory to the top. It must itself be writable, because its ".." changes. */
static bool lift(int directory_fd, const char *name, int top_fd)
{
    static unsigned long last;
    for (unsigned tries = 0; tries < 100; tries++) {
        char lifted[32];
        (void)snprintf(lifted, sizeof lifted, ".lifted-%lu", ++last);
        if (renameat(directory_fd, name, top_fd, lifted) == 0) {
            return true;
        }
        if (errno == EACCES) {
            open_up(directory_fd, name);
        } else if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
            return false;
        }
    }
    return false;
}

/* Removes what is in a top-level directory: files at once, directories by lifting them. Returns
 * whether it made progress. */
static bool empty(DIR *dir, int top_fd)
{
    bool any = false;
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        if (unlinkat(dirfd(dir), name, 0) == 0 || unlinkat(dirfd(dir), name, AT_REMOVEDIR) == 0 ||
            lift(dirfd(dir), name, top_fd)) {
            any = true;
        }
    }
    return any;
}

/* Handles one entry of the top. Returns whether it made progress. */
static bool reduce(int top_fd, const char *name)
{
    if (unlinkat(top_fd, name, 0) == 0 || unlinkat(top_fd, name, AT_REMOVEDIR) == 0) {
        return true;
    }
    open_up(top_fd, name); /* to read, write and search it */
    defer_closedir DIR *dir = open_directory(top_fd, name);
    if (!dir) {
        return false;
    }
    bool any = false;
    while (empty(dir, top_fd)) {
        any = true;
        rewinddir(dir);
    }
    return unlinkat(top_fd, name, AT_REMOVEDIR) == 0 || any;
}

bool tree_remove(int parent_fd, const char *name)
{
    open_up(parent_fd, name);
    defer_closedir DIR *top = open_directory(parent_fd, name);
    if (!top) {
        return unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT;
    }
    for (bool any = true; any;) {
        any = false;
        rewinddir(top);
        for (const char *found = NULL; (found = fd_next_name(top));) {
            any = reduce(dirfd(top), found) || any;
        }
    }
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

/* --- the helper --- */

enum {
    CLEANUP_FD = 3,
    ITEMS = 64,
    GIVE_UP_S = 30, /* processes that the kernel is ending may hold something for a while */
    LONGEST_PAUSE_MS = 500,
    STALE_SECONDS = 10,
};

static struct item {
    struct cleanup_request request; /* name "": free */
    int parents[CLEANUP_PARENTS];   /* -1: none */
    uint64_t give_up_ns;            /* counted from when it is due */
} items[ITEMS];

static void kill_members(int parent_fd, const char *name)
{
    char path[128];
    char text[4096];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", name);
    defer_close int fd = openat(parent_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        pid_t pid = (pid_t)strtoul(line, NULL, 10);
        if (pid > 1) {
            (void)kill(pid, SIGKILL);
        }
    }
}

/* Returns whether the item is removed. */
static bool remove_item(const struct item *item)
{
    const char *name = item->request.name;
    bool gone = true;
    if (item->request.kind != CLEANUP_GROUPS) {
        return tree_remove(item->parents[0], name);
    }
    for (unsigned i = 0; i < CLEANUP_PARENTS && item->parents[i] >= 0; i++) {
        if (unlinkat(item->parents[i], name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
            kill_members(item->parents[i], name);
            gone = false;
        }
    }
    return gone;
}

static bool is_old_and_ours(const struct stat *st)
{
    return st->st_uid == geteuid() && time(NULL) - st->st_mtime >= STALE_SECONDS;
}

/* Whether no server holds the lock of this directory. A young directory's server may be about to
 * take it. A scratch directory counts only with its lock, because other directories there may
 * belong to anybody. *ret_lock: held, or -1 */
static bool is_stale(int parent_fd, const char *name, enum cleanup_kind kind, int *ret_lock)
{
    struct stat st;
    defer_close int fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid()) {
        return false;
    }
    *ret_lock = openat(fd, kind == CLEANUP_STORE ? STORE_LOCK : SCRATCH_LOCK,
                       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*ret_lock < 0) {
        return errno == ENOENT && kind == CLEANUP_STORE && is_old_and_ours(&st);
    }
    return fstat(*ret_lock, &st) == 0 && S_ISREG(st.st_mode) && is_old_and_ours(&st) &&
           flock(*ret_lock, LOCK_EX | LOCK_NB) == 0;
}

static void remove_stale_directories(int parent_fd, enum cleanup_kind kind)
{
    const char *prefix = kind == CLEANUP_STORE ? "" : SCRATCH_PREFIX;
    defer_closedir DIR *dir = fd_entries(parent_fd);
    for (const char *name = NULL; (name = fd_next_name(dir));) {
        defer_close int lock_fd = -1;
        if (strncmp(name, prefix, strlen(prefix)) == 0 && name[0] != '.' &&
            is_stale(parent_fd, name, kind, &lock_fd)) {
            (void)tree_remove(parent_fd, name);
        }
    }
}

static void remove_leftovers(const struct item *item)
{
    enum cleanup_kind kind = (enum cleanup_kind)item->request.kind;
    for (unsigned i = 0; i < CLEANUP_PARENTS && item->parents[i] >= 0; i++) {
        if (kind == CLEANUP_GROUPS) {
            (void)cgroup_sweep_stale(item->parents[i], /* remove= */ true);
        } else if (kind != CLEANUP_TREE) {
            remove_stale_directories(item->parents[i], kind);
        }
    }
}

/* name "": a free item. NULL: not found. */
static struct item *find_item(const char *name)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        if (strcmp(items[i].request.name, name) == 0) {
            return &items[i];
        }
    }
    return NULL;
}

static void release_item(struct item *item)
{
    item->request.name[0] = '\0';
    for (unsigned i = 0; i < CLEANUP_PARENTS; i++) {
        own_close(&item->parents[i]);
    }
}

/* Receives one request. Returns what recvmsg does, or -errno. */
static ssize_t receive(void)
{
    struct item new = {};
    ssize_t size =
        packet_receive(CLEANUP_FD, &new.request, sizeof new.request, new.parents, CLEANUP_PARENTS);
    if (size <= 0) {
        return size;
    }
    new.request.name[sizeof new.request.name - 1] = '\0';
    struct item *item = find_item(new.request.name);
    if (item) {
        item->request.is_due = new.request.is_due;
        release_item(&new);
    } else if ((item = find_item(""))) {
        *item = new;
    } else {
        release_item(&new);
        return size; /* the next server removes it */
    }
    item->give_up_ns = clock_now_ns() + GIVE_UP_S * CLOCK_NS_PER_S;
    if (!item->request.is_due) {
        remove_leftovers(item);
    }
    return size;
}

/* Removes control groups first, because a directory can take long. Returns whether there is more to
 * do. */
static bool remove_due(bool all)
{
    bool left = false;
    for (unsigned kind = CLEANUP_GROUPS; kind <= CLEANUP_TREE; kind++) {
        for (struct item *item = items; item < items + ITEMS; item++) {
            if (!item->request.name[0] || item->request.kind != kind ||
                (!all && !item->request.is_due)) {
                continue;
            }
            if (remove_item(item) || clock_now_ns() > item->give_up_ns) {
                release_item(item);
            } else {
                left = true;
            }
        }
    }
    return left;
}

int cleanup_main(void)
{
    bool served = true;
    bool left = false;
    int pause_ms = 1;
    while (served || left) {
        struct pollfd polled = {.fd = served ? CLEANUP_FD : -1, .events = POLLIN};
        if (poll(&polled, 1, left ? pause_ms : -1) == 1) {
            ssize_t size = receive();
            served = size > 0 || size == -EINTR || size == -EAGAIN;
            pause_ms = 1;
            for (unsigned i = 0; i < ITEMS && !served; i++) {
                items[i].give_up_ns = clock_now_ns() + GIVE_UP_S * CLOCK_NS_PER_S;
            }
        }
        left = remove_due(/* all= */ !served);
        pause_ms = pause_ms < LONGEST_PAUSE_MS ? 2 * pause_ms : pause_ms;
    }
    return 0;
}
