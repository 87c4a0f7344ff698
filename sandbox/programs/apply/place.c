/* A name in DIR that was exchanged with a temporary one, also by a process that was killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/apply/work.h"
#include "sandbox/programs/common/content.h"

int apply_finish_swap(const struct apply_item *item, int dir_fd, const char *temporary,
                      const char *name)
{
    struct apply_look look;
    int r = apply_facts_at(dir_fd, temporary, 0, &look);
    if (r == 0 && !apply_facts_equal_moved(&item->before, &look.facts)) {
        r = APPLY_CONFLICT;
    }
    if (r == 0 && fd_is_written_at(dir_fd, temporary, look.facts.mode) > 0) {
        r = APPLY_WRITTEN;
    }
    r = r ? r : apply_remove_temporary(dir_fd, temporary);
    if (r == 0) {
        return 0;
    }
    bool deletes = item->source.mode == 0;
    (void)apply_rename(dir_fd, temporary, name, deletes ? RENAME_NOREPLACE : RENAME_EXCHANGE);
    return r == -ENOTEMPTY || r == -EEXIST ? APPLY_FULL : r;
}

/* --- after a kill --- */

static bool is_temporary(const char *name)
{
    static const char before[] = ".sandpiper-";
    static const char after[] = ".tmp";
    const char *digits = name + sizeof before - 1;
    return strlen(name) == APPLY_TEMPORARY_NAME - 1 &&
           strncmp(name, before, sizeof before - 1) == 0 &&
           strspn(digits, "0123456789abcdef") == 16 && strcmp(digits + 16, after) == 0;
}

/* The item's name, if it is in the directory of the temporary one. */
static const char *name_beside(const struct apply_item *item, const struct apply_journal *journal,
                               const char *temporary)
{
    size_t parent = (size_t)(temporary - journal->temporary);
    const char *name = path_last(item->path);
    bool is_beside = (size_t)(name - item->path) == parent &&
                     strncmp(item->path, journal->temporary, parent) == 0;
    return is_beside ? name : NULL;
}

void apply_recover(struct apply_run *run)
{
    const struct apply_journal *journal = run->journal;
    const char *name = NULL;
    struct apply_look look;
    if (!journal->temporary[0]) {
        return;
    }
    defer_close int dir_fd =
        apply_open_parent(run->dir_fd, run->mount_id, journal->temporary, &name);
    const struct apply_item *item =
        journal->temporary_item ? run->items[journal->temporary_item - 1] : NULL;
    const char *of_item = item && dir_fd >= 0 ? name_beside(item, journal, name) : NULL;
    if (dir_fd >= 0 && is_temporary(name) && apply_facts_at(dir_fd, name, 0, &look) == 0 &&
        look.facts.mode) {
        if (!apply_is_ours(run, &look) && of_item) {
            (void)apply_finish_swap(item, dir_fd, name, of_item);
        }
        apply_discard_temporary(run, dir_fd, name);
    }
    apply_forget_temporary(run);
}

/* --- what changes DIR --- */

/* For a file system without RENAME_EXCHANGE. */
static int replace_plainly(const struct work *work, const char *temporary)
{
    bool was_directory = S_ISDIR(work->target.facts.mode);
    if (work_is_written(work->dir_fd, work->name, &work->target.facts)) {
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

/* The kernel gives many writes of one tick the same time: so that the user's next one is seen, the
 * file gets one that none of theirs has. */
static void stamp(int fd)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    if (clock_gettime(CLOCK_REALTIME, &times[1]) == 0) {
        (void)futimens(fd, times);
    }
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
    stamp(fd);
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
        r = work_is_written(work->dir_fd, work->name, &work->target.facts) ? APPLY_WRITTEN
            : unlinkat(work->dir_fd, work->name, 0) < 0                    ? -errno
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
