#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/common/content.h"

/* A name in DIR that was exchanged with a temporary one, also by a process that was killed. */

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
    return !work->same && work_is_written(work) ? APPLY_WRITTEN : 0;
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
