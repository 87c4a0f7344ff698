#include "sandbox/programs/keeper/watch.h"

#include <linux/magic.h>
#include <stdalign.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    EVENTS = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVE,
    READS = 2000,       /* of some events each: more than a queue holds, inotify(7) */
    DIRECTORIES = 2000, /* they count for the user outside, and code chooses how many there are */
};

/* Whether all changes are made by this kernel: what a network file system's other clients do is
 * not reported, inotify(7), nor what is done behind a FUSE file system. */
static bool is_local(int fd)
{
    static const unsigned long types[] = {
        TMPFS_MAGIC,       EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
    };
    struct statfs fs;
    bool local = false;
    for (unsigned i = 0; fstatfs(fd, &fs) == 0 && i < sizeof types / sizeof *types; i++) {
        local = local || (unsigned long)fs.f_type == types[i];
    }
    return local;
}

/* Directories that are gone are no longer watched. */
static void count_ignored(struct watch *watch, const char *events, ssize_t size)
{
    const struct inotify_event *event = NULL;
    for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
        event = (const void *)(events + at);
        watch->directories -= event->mask & IN_IGNORED && watch->directories > 0;
    }
}

bool watch_is_quiet(struct watch *watch)
{
    alignas(struct inotify_event) char events[4096];
    bool quiet = watch->on;
    /* Not until it is empty: code can fill the queue as fast. */
    for (unsigned i = 0; watch->fd >= 0 && i < READS; i++) {
        ssize_t size = read(watch->fd, events, sizeof events);
        if (size <= 0) {
            break;
        }
        count_ignored(watch, events, size);
        quiet = false;
    }
    return quiet;
}

void watch_begin(struct watch *watch, int root_fd)
{
    struct stat st;
    watch->on = watch->fd >= 0 && is_local(root_fd) && fstat(root_fd, &st) == 0;
    watch->device = watch->on ? st.st_dev : 0;
}

void watch_end(struct watch *watch, int root_fd, bool whole)
{
    /* A working directory that is removed would stay watched. */
    bool left = watch->fd < 0 || fchdir(root_fd) == 0;
    watch->on = watch->on && whole && left;
}

void watch_directory(struct watch *watch, int fd)
{
    /* By the descriptor, which no change of names leads elsewhere. */
    bool can = watch->on && watch->directories < DIRECTORIES && fchdir(fd) == 0;
    int number = can ? inotify_add_watch(watch->fd, ".", EVENTS) : -1;
    watch->on = number >= 0;
    if (number > watch->last) { /* a new one: their numbers rise */
        watch->last = number;
        watch->directories++;
    }
}

void watch_entry(struct watch *watch, const struct stat *st)
{
    /* Another file system may not be local, and a file's other names may be elsewhere. */
    if (st->st_dev != watch->device || (!S_ISDIR(st->st_mode) && st->st_nlink > 1)) {
        watch->on = false;
    }
}
