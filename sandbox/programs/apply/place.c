/* What changes DIR. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/common/content.h"

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

/* Records what was made under a temporary name in dir_fd, and gives it its owner. fd: opened, also
 * with O_PATH. owner: as above. */
static int apply_give(struct apply_run *run, int fd, int dir_fd, const struct apply_look *owner)
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

/* Makes a directory under the temporary name. mode: 0777 bits; those above them stay as the parent
 * directory gives them. owner: NULL for a name that DIR does not have. Opened for reading. */
static int apply_make_directory(struct apply_run *run, int dir_fd, const char *temporary,
                                mode_t mode, const struct apply_look *owner)
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

/* Gives a name that must not exist to what was made under a temporary one. 0 or -errno */
static int apply_rename_new(int dir_fd, const char *temporary, const char *name)
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

/* The same of an item in DIR, and makes missing directories, but none that has been there. -ENOENT:
 * such a one. */
static int apply_make_parent(struct apply_run *run, const struct apply_item *item,
                             const char **ret_name)
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

/* For a file system without RENAME_EXCHANGE. */
static int replace_plainly(const struct work *work, const char *temporary)
{
    bool was_directory = S_ISDIR(work->target.facts.mode);
    if (work_is_written(work)) {
        return APPLY_WRITTEN;
    }
    if (was_directory == S_ISDIR(work->item->source.mode)) {
        return apply_rename(work->dir_fd, temporary, work->name, 0);
    }
    if (unlinkat(work->dir_fd, work->name, was_directory ? AT_REMOVEDIR : 0) < 0) {
        return errno == ENOTEMPTY || errno == EEXIST ? APPLY_FULL : -errno;
    }
    return apply_rename_new(work->dir_fd, temporary, work->name);
}

/* What was made takes the name. Returns with or without the temporary name. */
static int place(struct work *work, const char *temporary)
{
    struct apply_run *run = work->run;
    struct apply_look now;
    int r = apply_facts_at(work->dir_fd, work->name, run->mount_id, &now);
    if (r < 0 || !work_is_before(work, &now.facts)) {
        return r < 0 ? r : APPLY_CONFLICT;
    }
    if (!now.facts.mode) {
        r = apply_rename_new(work->dir_fd, temporary, work->name);
        return r == -EEXIST ? APPLY_CONFLICT : r;
    }
    r = apply_rename(work->dir_fd, temporary, work->name, RENAME_EXCHANGE);
    if (r == -EINVAL) {
        return replace_plainly(work, temporary);
    }
    return r ? r : apply_finish_swap(work->item, work->dir_fd, temporary, work->name);
}

static const struct apply_look *owner_of(const struct work *work)
{
    return work->target.facts.mode ? &work->target : NULL;
}

/* The time that code's file has, by which make(1) goes. But the kernel gives many writes of one
 * tick the same time, and the user's next one must be seen, as this one by their programs: where
 * that time may be one of theirs, it is now, which no write by the tick has. */
static void stamp(const struct work *work, int fd)
{
    enum { TICK_NS = 20000000 }; /* and more */
    struct timespec times[2];
    int64_t mtime_ns = work->item->source.mtime_ns;
    int64_t now_ns = clock_wall_ns();
    bool is_known = mtime_ns > now_ns - TICK_NS || mtime_ns == work->item->before.mtime_ns;
    content_times(is_known ? now_ns : mtime_ns, times);
    (void)futimens(fd, times);
}

/* What code has renamed has the access control list of the user's file; a new file gets none, and
 * without it the mode may give others more than before: then it gives them nothing. */
static mode_t mode_of(const struct work *work)
{
    mode_t mode = work->item->source.mode & ACCESSPERMS;
    bool is_bare = !S_ISREG(work->target.facts.mode) && attributes_has_acl(work->source_fd);
    return is_bare ? mode & (mode_t)S_IRWXU : mode;
}

static int fill(struct work *work, int fd)
{
    int r = apply_give(work->run, fd, work->dir_fd, owner_of(work));
    r = r ? r : content_copy(work->source_fd, fd, work->item->source.bytes, apply_is_wanted);
    r = r > 0 ? APPLY_BUSY : r;
    if (r == 0 && work->item->hash) { /* it may have been written to meanwhile */
        uint64_t hash = 0;
        r = content_hash(fd, work->item->source.bytes, work->run->journal->key, &hash);
        r = r ? r : hash == work->item->hash ? 0 : APPLY_BUSY;
    }
    if (r == 0 && S_ISREG(work->target.facts.mode)) {
        defer_close int old_fd = work_open_target(work);
        r = old_fd < 0 ? -EACCES : attributes_copy(old_fd, fd); /* its ACL must not be lost */
    }
    if (r == 0 && fchmod(fd, mode_of(work)) < 0) {
        r = -errno;
    }
    stamp(work, fd);
    return r;
}

int work_make_ahead(struct work *work)
{
    defer_close int fd =
        openat(work->dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, S_IRUSR | S_IWUSR);
    work->run->alone = fd < 0; /* the file system has none */
    return fd >= 0 && fill(work, fd) == 0 ? take_fd(&fd) : -1;
}

/* What was made ahead gets the temporary name. Its descriptor; -1: there is none. */
static int take_ahead(struct work *work, const char *temporary)
{
    char path[32];
    int *fd = &work->run->ahead[work->number - 1];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    bool is_it =
        *fd >= 0 && linkat(AT_FDCWD, path, work->dir_fd, temporary, AT_SYMLINK_FOLLOW) == 0;
    work->run->alone = work->run->alone || (*fd >= 0 && !is_it);
    return is_it ? take_fd(fd) : -1;
}

static int make_file(struct work *work, const char *temporary, int *ret_fd)
{
    *ret_fd = take_ahead(work, temporary);
    if (*ret_fd >= 0) {
        return apply_give(work->run, *ret_fd, work->dir_fd, owner_of(work));
    }
    *ret_fd = openat(work->dir_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     S_IRUSR | S_IWUSR);
    int r = *ret_fd < 0 ? -errno : fill(work, *ret_fd);
    return r ? r : fd_flush(*ret_fd);
}

static int make_link(struct work *work, const char *temporary, int *ret_fd)
{
    char text[APPLY_PATH_BYTES];
    if (work_read_link(work->upper_fd, work->upper_name, text) != work->item->source.bytes) {
        return APPLY_BUSY;
    }
    if (symlinkat(text, work->dir_fd, temporary) < 0) {
        return -errno;
    }
    *ret_fd = openat(work->dir_fd, temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : apply_give(work->run, *ret_fd, work->dir_fd, owner_of(work));
}

int work_make(struct work *work, const char *temporary, int *ret_fd)
{
    mode_t mode = work->item->source.mode;
    if (S_ISREG(mode)) {
        return make_file(work, temporary, ret_fd);
    }
    if (S_ISLNK(mode)) {
        return make_link(work, temporary, ret_fd);
    }
    mode |= work->more ? S_IRWXU : 0;
    *ret_fd = apply_make_directory(work->run, work->dir_fd, temporary, mode, owner_of(work));
    return *ret_fd < 0 ? *ret_fd : 0;
}

/* What DIR has is what was made, if it still is; else what was made stays what it is known as, and
 * the user's change of this moment is seen as one. */
static void note_after(struct work *work, const struct apply_look *made, int fd)
{
    struct apply_look now;
    bool is_it =
        apply_facts_at(fd, "", 0, &now) == 0 && apply_facts_equal_moved(&made->facts, &now.facts);
    work->item->after = is_it ? now.facts : made->facts;
}

int work_replace(struct work *work)
{
    char temporary[APPLY_TEMPORARY_NAME];
    struct apply_look made = {};
    defer_close int fd = -1;
    struct apply_run *run = work->run;
    if (work->dir_fd < 0) {
        int parent = apply_make_parent(run, work->item, &work->name);
        if (parent < 0) {
            return parent;
        }
        work->dir_fd = parent;
    }
    int r = apply_name_temporary(run, work->number, work->item->path, work->name, temporary);
    if (r < 0) {
        return r;
    }
    r = work_make(work, temporary, &fd);
    r = r ? r : work_check_source(work);
    r = r ? r : apply_facts_at(fd, "", 0, &made);
    work->item->after = made.facts; /* before it has the name: see work_is_before() */
    r = r ? r : place(work, temporary);
    apply_discard_temporary(run, work->dir_fd, temporary);
    work->item->after = (struct apply_facts){};
    if (r == 0) {
        note_after(work, &made, fd);
    }
    return r;
}

int work_change_mode(struct work *work)
{
    struct apply_look look = {};
    mode_t mode = (work->target.facts.mode & ALLPERMS & ~ACCESSPERMS) |
                  (work->item->source.mode & ACCESSPERMS);
    bool is_directory = S_ISDIR(work->target.facts.mode);
    defer_close int fd = is_directory ? openat(work->dir_fd, work->name,
                                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                      : work_open_target(work);
    int r = fd < 0 ? (is_directory ? -errno : -EACCES)
                   : apply_facts_at(fd, "", work->run->mount_id, &look);
    if (r == 0 && !work_is_before(work, &look.facts)) {
        return APPLY_CONFLICT;
    }
    if (r == 0 && fchmod(fd, mode) < 0) {
        r = -errno;
    }
    if (r == 0) {
        look.facts.mode = (look.facts.mode & (mode_t)S_IFMT) | mode;
        note_after(work, &look, fd);
    }
    return r;
}

static int remove_file(struct work *work)
{
    char temporary[APPLY_TEMPORARY_NAME];
    struct apply_run *run = work->run;
    int r = apply_name_temporary(run, work->number, work->item->path, work->name, temporary);
    r = r ? r : apply_rename(work->dir_fd, work->name, temporary, RENAME_NOREPLACE);
    if (r == 0) {
        r = apply_finish_swap(work->item, work->dir_fd, temporary, work->name);
        apply_forget_temporary(run);
        return r;
    }
    apply_forget_temporary(run);
    if (r == -EINVAL) {
        r = work_is_written(work)                       ? APPLY_WRITTEN
            : unlinkat(work->dir_fd, work->name, 0) < 0 ? -errno
                                                        : 0;
    }
    return r == -ENOENT ? APPLY_SAME : r;
}

int work_remove_target(struct work *work)
{
    if (!S_ISDIR(work->target.facts.mode)) {
        return remove_file(work);
    }
    if (unlinkat(work->dir_fd, work->name, AT_REMOVEDIR) < 0) {
        return errno == ENOTEMPTY || errno == EEXIST ? APPLY_FULL
               : errno == ENOENT                     ? APPLY_SAME
                                                     : -errno;
    }
    return 0;
}
