#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/apply/work.h"
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

static void work_done(struct work *work)
{
    own_close(&work->dir_fd);
    own_close(&work->upper_fd);
    own_close(&work->source_fd);
}

static bool is_odd(const struct apply_facts *facts)
{
    return facts->mode && !S_ISREG(facts->mode) && !S_ISDIR(facts->mode) && !S_ISLNK(facts->mode);
}

bool work_is_before(const struct work *work, const struct apply_facts *now)
{
    const struct apply_facts *before = &work->item->before;
    /* Of a directory that was made with more than its mode, perhaps by a killed process. */
    const struct apply_facts *after = &work->item->after;
    if (apply_facts_equal(before, now) || (after->mode && apply_facts_equal(after, now))) {
        return true;
    }
    if (!apply_facts_equal_moved(before, now)) {
        return false;
    }
    for (uint32_t i = 0; i < work->run->journal->count; i++) {
        const struct apply_item *other = work->run->items[i];
        if (other != work->item && other->before.mode && other->before.inode == before->inode &&
            (other->status == APPLY_DONE || other->status == APPLY_SAME)) {
            return true;
        }
    }
    return false;
}

static int find_target(struct work *work)
{
    struct apply_run *run = work->run;
    int fd = apply_open_parent(run->dir_fd, run->mount_id, work->item->path, &work->name);
    if (fd < 0 && fd != -ENOENT) {
        return fd;
    }
    work->dir_fd = fd;
    if (!apply_is_above(run, work->item, fd)) {
        return APPLY_CONFLICT; /* the user has put another directory in its place */
    }
    if (fd < 0) {
        return 0;
    }
    return apply_facts_at(fd, work->name, run->mount_id, &work->target);
}

/* --- the source --- */

int work_check_source(const struct work *work)
{
    struct apply_look look;
    const struct apply_facts *source = &work->item->source;
    int r = apply_facts_at(work->upper_fd, work->upper_name, 0, &look);
    if (r == 0 && !apply_facts_equal(source, &look.facts)) {
        return APPLY_BUSY;
    }
    if (r == 0 && work->source_fd >= 0) {
        r = apply_facts_at(work->source_fd, "", 0, &look);
        r = r == 0 && !apply_facts_equal(source, &look.facts) ? APPLY_BUSY : r;
    }
    return r;
}

/* A deleted file is a whiteout in the changes, or not there, or in what is no directory there. */
static int check_deleted(const struct work *work)
{
    struct apply_look look;
    if (work->upper_fd < 0) {
        return 0;
    }
    int r = apply_facts_at(work->upper_fd, work->upper_name, 0, &look);
    return r == 0 && look.facts.mode && !look.is_whiteout ? APPLY_BUSY : r;
}

static int find_source(struct work *work)
{
    const struct apply_item *item = work->item;
    int fd = apply_open_parent(work->run->upper_fd, 0, item->path, &work->upper_name);
    bool is_absent = fd == -ENOENT || fd == -ENOTDIR;
    if (fd < 0 && !is_absent) {
        return fd;
    }
    work->upper_fd = fd;
    if (item->source.mode == 0) {
        return check_deleted(work);
    }
    int r = is_absent ? APPLY_BUSY : work_check_source(work);
    if (r || !S_ISREG(item->source.mode)) {
        return r;
    }
    fd = openat(work->upper_fd, work->upper_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ELOOP ? APPLY_BUSY : -errno;
    }
    work->source_fd = fd;
    return work_check_source(work);
}

size_t work_read_link(int dir_fd, const char *name, char text[APPLY_PATH_BYTES])
{
    ssize_t size = readlinkat(dir_fd, name, text, APPLY_PATH_BYTES);
    if (size <= 0 || size == APPLY_PATH_BYTES) {
        return 0;
    }
    text[size] = '\0';
    return (size_t)size;
}

/* --- what DIR has --- */

int work_open_target(const struct work *work)
{
    struct apply_look look;
    if (!S_ISREG(work->target.facts.mode)) {
        return -1;
    }
    defer_close int fd =
        openat(work->dir_fd, work->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_it = fd >= 0 && apply_facts_at(fd, "", 0, &look) == 0 &&
                 look.facts.inode == work->target.facts.inode && S_ISREG(look.facts.mode);
    return is_it ? take_fd(&fd) : -1;
}

/* Whether DIR has already what the changes have, but for the mode bits. */
static bool has_content(const struct work *work)
{
    static char texts[2][APPLY_PATH_BYTES];
    const struct apply_facts *source = &work->item->source;
    const struct apply_facts *target = &work->target.facts;
    if ((source->mode & S_IFMT) != (target->mode & S_IFMT)) {
        return false;
    }
    if (source->mode == 0) {
        return true;
    }
    if (S_ISLNK(source->mode)) {
        size_t size = work_read_link(work->upper_fd, work->upper_name, texts[0]);
        return size > 0 && size == work_read_link(work->dir_fd, work->name, texts[1]) &&
               memcmp(texts[0], texts[1], size) == 0;
    }
    if (S_ISDIR(source->mode)) {
        return true;
    }
    defer_close int fd = source->bytes == target->bytes ? work_open_target(work) : -1;
    return fd >= 0 && content_equal(work->source_fd, fd, source->bytes) == 1;
}

bool work_is_written(int dir_fd, const char *name, const struct apply_facts *facts)
{
    return fd_is_written_at(dir_fd, name, facts->mode) > 0;
}

/* Whether the item can be carried out, as far as can be seen before: 0, or what becomes of it. */
static int check(struct work *work)
{
    const struct apply_item *item = work->item;
    if (is_odd(&item->source)) {
        return APPLY_ODD;
    }
    int r = find_target(work);
    r = r ? r : find_source(work);
    if (r) {
        return r;
    }
    if (is_odd(&work->target.facts)) {
        return APPLY_ODD;
    }
    work->same = has_content(work);
    work->same_mode =
        work->same && (S_ISLNK(item->source.mode) || (item->source.mode & ACCESSPERMS) ==
                                                         (work->target.facts.mode & ACCESSPERMS));
    if (!work->same_mode && !work_is_before(work, &work->target.facts)) {
        return APPLY_CONFLICT;
    }
    /* A name that is exchanged, and again, would be a change of the user's from then on. */
    bool stays = work->same || !work_is_written(work->dir_fd, work->name, &work->target.facts);
    return stays ? 0 : APPLY_WRITTEN;
}

static void work_begin(struct work *work, struct apply_run *run, uint32_t index)
{
    *work = (struct work){
        .run = run,
        .item = run->items[index],
        .number = index + 1,
        .dir_fd = -1,
        .upper_fd = -1,
        .source_fd = -1,
    };
}

/* Whether nothing is known that would keep another item from being carried out. */
static bool is_possible(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    if (check(&work)) {
        return false;
    }
    defer_close int fd = work_open_target(&work); /* for its ACL */
    return apply_is_in_way(work.item) ? run->ready == work.number
                                      : fd >= 0 || !S_ISREG(work.target.facts.mode);
}

/* The hash of DIR's file. 0: it cannot be read, or is no file. */
static uint64_t target_hash(struct work *work)
{
    if (work->hash == 0) {
        defer_close int fd = work_open_target(work);
        (void)(fd >= 0 &&
               content_hash(fd, work->target.facts.bytes, work->run->journal->key, &work->hash));
    }
    return work->hash;
}

/* Whether the changes have the content of DIR's file under a name that is not applied, or not yet,
 * as after a move of which only one half would be: then DIR would have it no more. In the last pass
 * what can be applied suffices: files that have changed their places wait for each other. */
static bool is_last(struct work *work)
{
    struct apply_run *run = work->run;
    mode_t type = work->target.facts.mode & S_IFMT;
    uint64_t bytes = S_ISREG(type) || S_ISLNK(type) ? work->target.facts.bytes : 0;
    bool makes_directory = S_ISDIR(work->item->source.mode); /* others come into it, and wait */
    for (uint32_t i = 0; bytes > 0 && i < run->journal->count; i++) {
        const struct apply_item *other = run->items[i];
        bool waits = other->status == APPLY_TO_DO;
        bool is_open = waits ? !makes_directory : other->status > APPLY_SAME;
        if (other == work->item || !is_open || (other->source.mode & S_IFMT) != type ||
            other->source.bytes != bytes) {
            continue;
        }
        uint64_t hash = target_hash(work);
        /* What cannot be read may have it, and a symlink of that length. */
        bool may_have = hash == 0 || other->hash == hash || (!other->hash && !waits);
        if (may_have && !(waits && work->last && is_possible(run, i))) {
            return true;
        }
    }
    return false;
}

/* Whether another name got the content of DIR's file, as after a move, and still has it. */
static bool has_copy(struct work *work)
{
    struct apply_run *run = work->run;
    uint64_t bytes = S_ISREG(work->target.facts.mode) ? work->target.facts.bytes : 0;
    for (uint32_t i = 0; bytes > 0 && i < run->journal->count; i++) {
        const struct apply_item *other = run->items[i];
        struct apply_look look = {};
        const char *name = NULL;
        if (other->status != APPLY_DONE || !S_ISREG(other->source.mode) ||
            other->source.bytes != bytes || !other->hash || other->hash != target_hash(work)) {
            continue;
        }
        defer_close int parent = apply_open_parent(run->dir_fd, run->mount_id, other->path, &name);
        if (parent >= 0 && apply_facts_at(parent, name, run->mount_id, &look) == 0 &&
            apply_facts_equal(&other->after, &look.facts)) {
            return true;
        }
    }
    return false;
}

/* Whether others come first. */
static bool waits(struct work *work)
{
    const struct apply_item *item = work->item;
    bool deletes = item->source.mode == 0 || apply_is_in_way(item);
    bool may_wait = (deletes && work->run->unnamed) ||
                    ((deletes || apply_shortens(item)) && work->run->unfinished) ||
                    (!work->same && is_last(work));
    return may_wait && !(item->source.mode == 0 && has_copy(work));
}

static int carry_out(struct work *work)
{
    struct apply_item *item = work->item;
    if (work->run->torn && apply_is_of_git(item)) {
        return APPLY_LAST;
    }
    int r = check(work);
    if (r) {
        return r;
    }
    if (work->same_mode) {
        item->after = work->target.facts;
        r = item->source.mode ? work_check_source(work) : 0;
        return r ? r : APPLY_SAME;
    }
    if (work->same && S_ISDIR(item->source.mode) && work->more) {
        return 0;
    }
    if (waits(work)) {
        return APPLY_LAST;
    }
    return item->source.mode == 0 ? work_remove_target(work)
           : work->same           ? work_change_mode(work)
                                  : work_replace(work);
}

static void end(struct work *work, int r)
{
    struct apply_run *run = work->run;
    struct apply_item *item = work->item;
    /* A directory on the way to it has gone or become something else. */
    r = r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? APPLY_CONFLICT : r;
    item->error = r < 0 ? -r : 0;
    atomic_signal_fence(memory_order_seq_cst);
    item->status = r < 0 ? APPLY_FAILED : r == 0 ? APPLY_DONE : (uint32_t)r;
    run->torn = run->torn || (item->status > APPLY_SAME && apply_is_of_git(item));
}

void apply_item(struct apply_run *run, uint32_t index, bool last)
{
    struct apply_item *item = run->items[index];
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    work.last = last;
    work.more = !last && S_ISDIR(item->source.mode) && (item->source.mode & S_IRWXU) != S_IRWXU;
    if (item->status != APPLY_TO_DO) {
        return;
    }
    int r = carry_out(&work);
    if ((r == 0 && work.more) || (r == APPLY_LAST && !last) ||
        (r == -EINTR && !apply_is_wanted())) {
        return;
    }
    end(&work, r);
}

bool apply_item_make_ahead(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    bool makes = S_ISREG(work.item->source.mode) && !run->alone &&
                 !(run->torn && apply_is_of_git(work.item)) && check(&work) == 0 && !work.same &&
                 work.dir_fd >= 0 && !waits(&work);
    run->ahead[index] = makes ? work_make_ahead(&work) : -1;
    return run->ahead[index] >= 0;
}

bool apply_item_can_be_made(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    char temporary[APPLY_TEMPORARY_NAME];
    defer_close int fd = -1;
    work_begin(&work, run, index);
    int r = check(&work);
    r = r ? r : apply_name_temporary(run, work.number, work.item->path, work.name, temporary);
    if (r == 0) {
        r = work_make(&work, temporary, &fd);
        apply_discard_temporary(run, work.dir_fd, temporary);
    }
    return r == 0;
}

void apply_item_check(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    int r = check(&work);
    if (r && r != APPLY_SAME) {
        end(&work, r);
    }
}
