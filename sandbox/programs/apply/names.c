#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/programs/apply/apply.h"

static int64_t time_ns(const struct statx_timestamp *time)
{
    const struct stat st = {.st_ctim = {.tv_sec = time->tv_sec, .tv_nsec = time->tv_nsec}};
    return apply_facts_of(&st).ctime_ns;
}

int apply_facts_at(int dir_fd, const char *name, uint64_t mount_id, struct apply_look *ret_look)
{
    struct statx st;
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH);
    *ret_look = (struct apply_look){};
    if (statx(dir_fd, name, flags, STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    *ret_look = (struct apply_look){
        .facts = {.inode = st.stx_ino,
                  .bytes = st.stx_size,
                  .ctime_ns = time_ns(&st.stx_ctime),
                  .mtime_ns = time_ns(&st.stx_mtime),
                  .mode = st.stx_mode},
        .mount_id = st.stx_mnt_id,
        .uid = st.stx_uid,
        .gid = st.stx_gid,
        .is_whiteout = S_ISCHR(st.stx_mode) && !st.stx_rdev_major && !st.stx_rdev_minor,
    };
    return mount_id && ret_look->mount_id != mount_id ? -EXDEV : 0;
}

/* A directory mounted below DIR is no part of the workspace: the overlay's lower layer shows what
 * is below the mount. */
static int open_below(int dir_fd, uint64_t mount_id, const char *name)
{
    struct apply_look look;
    defer_close int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : mount_id ? apply_facts_at(fd, "", mount_id, &look) : 0;
    return r < 0 ? r : take_fd(&fd);
}

/* Copies the next component but the last, and moves on to what follows it. 1; 0 at the last; or
 * -ENAMETOOLONG. */
static int cut_component(const char **rest, char name[NAME_MAX + 1])
{
    const char *slash = strchr(*rest, '/');
    if (!slash) {
        return 0;
    }
    size_t length = (size_t)(slash - *rest);
    if (length > NAME_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(name, *rest, length);
    name[length] = '\0';
    *rest = slash + 1;
    return 1;
}

int apply_open_parent(int root_fd, uint64_t mount_id, const char *path, const char **ret_name)
{
    char name[NAME_MAX + 1];
    int more = 0;
    defer_close int at = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *ret_name = path;
    while (at >= 0 && (more = cut_component(ret_name, name)) > 0) {
        int next = open_below(at, mount_id, name);
        (void)close(at);
        at = next;
        errno = at < 0 ? -at : 0;
    }
    return at < 0 ? -errno : more < 0 ? more : take_fd(&at);
}

int apply_rename(int dir_fd, const char *from, const char *to, unsigned flags)
{
    int r = flags ? (int)syscall(SYS_renameat2, dir_fd, from, dir_fd, to, flags)
                  : renameat(dir_fd, from, dir_fd, to);
    return r < 0 ? -errno : 0;
}

int apply_name_temporary(struct apply_run *run, uint32_t item, const char *path, const char *name,
                         char temporary[APPLY_TEMPORARY_NAME])
{
    static char whole[APPLY_TEMPORARY_BYTES];
    struct apply_journal *journal = run->journal;
    uint64_t random = 0;
    size_t parent = (size_t)(name - path);
    if (getrandom(&random, sizeof random, 0) < 0) {
        return -errno;
    }
    (void)snprintf(temporary, APPLY_TEMPORARY_NAME, ".sandpiper-%016llx.tmp",
                   (unsigned long long)random);
    /* Whole or empty for whoever reads it after a kill: its first byte comes last. */
    apply_forget_temporary(run);
    journal->temporary_item = item;
    journal->temporary_inode =
        item && run->items[item - 1]->source.mode == 0 ? APPLY_MADE_NONE : APPLY_MAKING;
    memcpy(whole, path, parent);
    memcpy(whole + parent, temporary, APPLY_TEMPORARY_NAME);
    memcpy(journal->temporary + 1, whole + 1, parent + APPLY_TEMPORARY_NAME - 1);
    atomic_signal_fence(memory_order_seq_cst);
    journal->temporary[0] = whole[0];
    atomic_signal_fence(memory_order_seq_cst);
    return 0;
}

void apply_forget_temporary(struct apply_run *run)
{
    atomic_signal_fence(memory_order_seq_cst);
    run->journal->temporary[0] = '\0';
    atomic_signal_fence(memory_order_seq_cst);
}

int apply_remove_temporary(int dir_fd, const char *temporary)
{
    int r = unlinkat(dir_fd, temporary, 0) < 0 ? -errno : 0;
    if (r == -EISDIR) {
        r = unlinkat(dir_fd, temporary, AT_REMOVEDIR) < 0 ? -errno : 0;
    }
    return r == -ENOENT ? 0 : r;
}

bool apply_is_ours(const struct apply_run *run, const struct apply_look *look)
{
    uint64_t made = run->journal->temporary_inode;
    return made == APPLY_MAKING || made == look->facts.inode;
}

void apply_discard_temporary(struct apply_run *run, int dir_fd, const char *temporary)
{
    struct apply_look look;
    if (apply_facts_at(dir_fd, temporary, 0, &look) == 0 && look.facts.mode &&
        apply_is_ours(run, &look)) {
        (void)apply_remove_temporary(dir_fd, temporary);
    }
    apply_forget_temporary(run);
}

int apply_give(struct apply_run *run, int fd, int dir_fd, const struct apply_look *owner)
{
    struct apply_look made = {};
    struct apply_look parent = {};
    int r = apply_facts_at(fd, "", 0, &made);
    r = r ? r : apply_facts_at(dir_fd, "", 0, &parent);
    if (r < 0) {
        return r;
    }
    run->journal->temporary_inode = made.facts.inode;
    uid_t uid = made.uid;
    gid_t gid = made.gid;
    if (owner) {
        uid = owner->uid;
        gid = owner->gid;
    } else if (run->gives_away) {
        uid = run->journal->owner_uid;
        gid = parent.facts.mode & S_ISGID ? made.gid : run->journal->owner_gid;
    }
    if ((uid != made.uid || gid != made.gid) && fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0) {
        return -errno;
    }
    return 0;
}

int apply_make_directory(struct apply_run *run, int dir_fd, const char *temporary, mode_t mode,
                         const struct apply_look *owner)
{
    struct apply_look made = {};
    mode_t plain = mode & ACCESSPERMS;
    if (mkdirat(dir_fd, temporary, plain | S_IRWXU) < 0) {
        return -errno;
    }
    defer_close int fd = openat(dir_fd, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : apply_give(run, fd, dir_fd, owner);
    r = r ? r : apply_facts_at(fd, "", 0, &made);
    /* Only where it must: a change of the mode can lose the set-group-id bit that the directory
     * has from its parent, chmod(2). */
    mode_t wanted = (made.facts.mode & ALLPERMS & ~ACCESSPERMS) | plain;
    if (r == 0 && (made.facts.mode & ALLPERMS) != wanted && fchmod(fd, wanted) < 0) {
        r = -errno;
    }
    return r < 0 ? r : take_fd(&fd);
}

static int make_missing(struct apply_run *run, int dir_fd, const char *path, const char *at,
                        const char *name, int upper_fd)
{
    char temporary[APPLY_TEMPORARY_NAME] = "";
    struct apply_look upper = {};
    if (upper_fd >= 0) {
        (void)apply_facts_at(upper_fd, name, 0, &upper);
    }
    mode_t mode = S_ISDIR(upper.facts.mode) ? upper.facts.mode & ACCESSPERMS : 0755;
    mode &= ~(mode_t)(S_IWGRP | S_IWOTH); /* no list has shown that */
    mode |= S_IRWXU;                      /* there is more to come */
    int r = apply_name_temporary(run, 0, path, at, temporary);
    if (r < 0) {
        return r;
    }
    defer_close int fd = apply_make_directory(run, dir_fd, temporary, mode, NULL);
    r = fd < 0 ? fd : apply_rename_new(dir_fd, temporary, name);
    apply_discard_temporary(run, dir_fd, temporary);
    return r == -EEXIST ? 0 : r; /* somebody else has made it */
}

int apply_rename_new(int dir_fd, const char *temporary, const char *name)
{
    struct apply_look look;
    int r = apply_rename(dir_fd, temporary, name, RENAME_NOREPLACE);
    if (r != -EINVAL) {
        return r;
    }
    r = apply_facts_at(dir_fd, name, 0, &look);
    r = r == 0 && look.facts.mode ? -EEXIST : r;
    return r ? r : apply_rename(dir_fd, temporary, name, 0);
}

/* Whether the directory was there while these items are applied: it, or something in it, has been
 * made or found. */
static bool was_there(const struct apply_run *run, const char *path, size_t size)
{
    char directory[APPLY_PATH_BYTES];
    (void)snprintf(directory, sizeof directory, "%.*s", (int)size, path);
    for (uint32_t i = 0; i < run->journal->count; i++) {
        const struct apply_item *item = run->items[i];
        if (item->after.mode &&
            (strcmp(item->path, directory) == 0 || apply_path_is_below(item->path, directory))) {
            return true;
        }
    }
    return false;
}

bool apply_is_above(const struct apply_run *run, const struct apply_item *item, int parent_fd)
{
    char path[APPLY_PATH_BYTES];
    struct apply_look look;
    const char *name = NULL;
    const char *end = item->path;
    if (!item->parent) {
        return true;
    }
    for (uint32_t i = 0; end && i <= item->above; i++) {
        end = strchr(end + (i > 0), '/');
    }
    if (!end) { /* it is the parent itself */
        return parent_fd < 0 ||
               (apply_facts_at(parent_fd, "", 0, &look) == 0 && look.facts.inode == item->parent);
    }
    (void)snprintf(path, sizeof path, "%.*s", (int)(end - item->path), item->path);
    defer_close int fd = apply_open_parent(run->dir_fd, run->mount_id, path, &name);
    return fd == -ENOENT ||
           (fd >= 0 && apply_facts_at(fd, "", 0, &look) == 0 && look.facts.inode == item->parent);
}

int apply_make_parent(struct apply_run *run, const struct apply_item *item, const char **ret_name)
{
    char name[NAME_MAX + 1];
    int more = 0;
    int r = 0;
    const char *path = item->path;
    const char *begin = path;
    uint32_t count = 0;
    defer_close int at = openat(run->dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    defer_close int upper = openat(run->upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *ret_name = path;
    r = at < 0 ? -errno : 0;
    while (r == 0 && (more = cut_component(ret_name, name)) > 0) {
        int next = open_below(at, run->mount_id, name);
        count++;
        bool is_missing = next == -ENOENT && count > item->above &&
                          !was_there(run, path, (size_t)(*ret_name - path) - 1);
        if (is_missing) { /* else the user has taken it away */
            r = make_missing(run, at, path, begin, name, upper);
            next = r ? r : open_below(at, run->mount_id, name);
        }
        int next_upper = upper < 0 ? -1 : open_below(upper, 0, name);
        own_close(&at);
        own_close(&upper);
        at = next;
        upper = next_upper;
        r = next < 0 ? next : 0;
        begin = *ret_name;
    }
    r = r ? r : more;
    return r < 0 ? r : apply_is_above(run, item, at) ? take_fd(&at) : -ENOENT;
}
