/* The applying process carries out a workspace's changes in the user's directory, DIR.
 *
 * The server starts it outside of the sandbox for one journal (protocol/apply_journal.h), and gives
 * it three descriptors: of DIR, of the changes and of the journal. It confines itself to these
 * before it reads the first name, because names, types, contents and symlinks of the changes are
 * the guest's, and others may rename in DIR meanwhile. Landlock lets it read the changes and change
 * DIR, and a filter leaves it some 30 calls; without Landlock each name is still opened below one
 * of the two descriptors and never through a symlink.
 *
 * After a kill, at any point, another start with the same journal continues.
 *
 *   sandpiper-apply     fd 3: the socket, with the request waiting in it */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/packet.h"

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

/* Finishes or takes back what a killed process has left under a temporary name. */
static void recover(struct apply_run *run)
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
    bool may_wait =
        (deletes && work->run->unnamed) ||
        (item->source.mode == 0 && !S_ISDIR(work->target.facts.mode) && work->run->committed &&
         !apply_is_tracked(work->run, item->path, &work->target.facts)) ||
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

/* Carries out an item that is still to be done, and sets its status. index: from 0. last: nothing
 * follows in the item's directory. Before that, a directory whose mode would keep the owner out is
 * made with more, and stays to be done. */
static void carry_out_item(struct apply_run *run, uint32_t index, bool last)
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

/* Makes the file of an item that is carried out next. False: there is none, or not ahead. */
static bool item_make_ahead(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    bool makes = S_ISREG(work.item->source.mode) && !run->alone &&
                 !(run->torn && apply_is_of_git(work.item)) && check(&work) == 0 && !work.same &&
                 work.dir_fd >= 0 && !waits(&work);
    run->ahead[index] = makes ? work_make_ahead(&work) : -1;
    return run->ahead[index] >= 0;
}

/* Makes what it would place, and removes that again: whether there is space for it, and right. */
static bool item_can_be_made(struct apply_run *run, uint32_t index)
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

/* Ends it where that can be seen before anything is changed. */
static void item_check(struct apply_run *run, uint32_t index)
{
    OWNED(work_done) struct work work;
    work_begin(&work, run, index);
    int r = check(&work);
    if (r && r != APPLY_SAME) {
        end(&work, r);
    }
}

/* --- the process, and which item has its turn --- */

enum { APPLY_FD = 3 };

/* Its end of the socket is closed with it. A death signal would leave a temporary name in DIR. */
/* Files have begun to change places: the content of some is in none until all have. */
static bool must_end;

bool apply_is_wanted(void)
{
    struct pollfd polled = {.fd = APPLY_FD};
    return must_end || poll(&polled, 1, 0) <= 0 || !(polled.revents & (POLLHUP | POLLERR));
}

/* Keeps of root's capabilities those for files of other owners, leases too; FSETID for the
 * set-group-id bit of shared directories, inode(7). 0 or -errno */
static int drop_capabilities(bool *ret_gives_away)
{
    const uint32_t kept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER |
                          1U << CAP_FSETID | 1U << CAP_LEASE;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &head, sets) < 0) {
        return -errno;
    }
    uint32_t low = sets[0].effective & kept;
    sets[0] = (struct __user_cap_data_struct){low, low, 0};
    sets[1] = (struct __user_cap_data_struct){};
    *ret_gives_away = low & 1U << CAP_CHOWN;
    return syscall(SYS_capset, &head, sets) < 0 ? -errno : 0;
}

static int apply_confine(struct apply_run *run, const struct apply_request *request)
{
    const struct landlock_rule rules[] = {
        {.fd = run->upper_fd, .allowed = LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR},
        {.fd = run->dir_fd,
         .allowed = LANDLOCK_FS_READ_FILE | LANDLOCK_FS_READ_DIR | LANDLOCK_FS_WRITE_FILE |
                    LANDLOCK_FS_TRUNCATE | LANDLOCK_FS_MAKE_REG | LANDLOCK_FS_MAKE_DIR |
                    LANDLOCK_FS_MAKE_SYM | LANDLOCK_FS_REMOVE_FILE | LANDLOCK_FS_REMOVE_DIR},
    };
    struct sock_fprog filter = {.len = (unsigned short)request->filter_count,
                                .filter = (struct sock_filter *)(uintptr_t)request->filter};
    int r = drop_capabilities(&run->gives_away);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        r = -errno;
    }
    if (r == 0 && landlock_abi() >= LANDLOCK_ABI_LEAST) {
        r = landlock_confine(rules, sizeof rules / sizeof *rules, LANDLOCK_NO_TCP);
    }
    if (r == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0) {
        r = -errno;
    }
    return r;
}

/* Maps and checks the journal. The lock ends with the last holder of this journal's descriptor: a
 * killed server's process may still be ending when the next server starts one. */
static int take_journal(struct apply_run *run, int fd)
{
    struct stat st;
    (void)flock(fd, LOCK_EX);
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    size_t size = (size_t)st.st_size;
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        return -errno;
    }
    run->journal = bytes;
    if (!apply_journal_is_valid(bytes, size)) {
        return -EBADMSG;
    }
    struct apply_item *item = NULL;
    uint32_t count = 0;
    run->items = calloc(run->journal->count + 1UL, sizeof(struct apply_item *));
    run->ahead = calloc(run->journal->count + 1UL, sizeof(int));
    while (run->items && run->ahead && (item = apply_journal_next(run->journal, item))) {
        run->ahead[count] = -1;
        run->items[count++] = item;
    }
    return run->items && run->ahead ? 0 : -ENOMEM;
}

static int take_request(struct apply_run *run)
{
    static struct apply_request request;
    struct apply_look look;
    int fds[3];
    ssize_t size = packet_receive(APPLY_FD, &request, sizeof request, fds, 3);
    if (size != sizeof request || request.filter_count > APPLY_FILTER_STEPS || fds[2] < 0) {
        return size < 0 ? (int)size : -EBADMSG;
    }
    run->dir_fd = fds[0];
    run->upper_fd = fds[1];
    int r = apply_facts_at(run->dir_fd, "", 0, &look);
    run->mount_id = look.mount_id;
    r = r ? r : take_journal(run, fds[2]);
    return r ? r : apply_confine(run, &request);
}

static bool is_deletion(const struct apply_item *item)
{
    return item->source.mode == 0;
}

static int compare_item(const void *path, const void *item)
{
    return apply_path_compare(path, (*(struct apply_item *const *)item)->path);
}

/* Whether DIR's directory of that path has an entry that is not among the count items. */
static bool has_others(const struct apply_run *run, const char *path,
                       struct apply_item *const *items, size_t count)
{
    alignas(struct dirent64) static char entries[1 << 14];
    static char whole[APPLY_PATH_BYTES + NAME_MAX + 2];
    const char *name = NULL;
    defer_close int parent = apply_open_parent(run->dir_fd, run->mount_id, path, &name);
    defer_close int fd =
        parent < 0 ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    long size = 0;
    while (fd >= 0 && (size = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        const struct dirent64 *entry = NULL;
        for (long at = 0; at < size; at += entry->d_reclen) {
            entry = (const struct dirent64 *)(const void *)(entries + at);
            (void)snprintf(whole, sizeof whole, "%s/%s", path, entry->d_name);
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                (count == 0 ||
                 !bsearch(whole, items, count, sizeof(struct apply_item *), compare_item))) {
                return true;
            }
        }
    }
    return size < 0;
}

/* Empties a directory that makes way for a file, which can be made: what is in it follows it in the
 * journal. */
static void make_way(struct apply_run *run, uint32_t index)
{
    const struct apply_item *item = run->items[index];
    uint32_t end = index + 1;
    while (end < run->journal->count && apply_path_is_below(run->items[end]->path, item->path)) {
        end++;
    }
    bool is_ready = !run->unfinished && !run->unnamed && item_can_be_made(run, index);
    for (uint32_t i = index; i < end && is_ready; i++) {
        is_ready = !S_ISDIR(run->items[i]->before.mode) ||
                   !has_others(run, run->items[i]->path, run->items + i + 1, end - i - 1);
    }
    run->ready = is_ready ? index + 1 : 0;
    while (--end > index) {
        if (is_ready && is_deletion(run->items[end])) {
            carry_out_item(run, end, /* last= */ true);
        }
    }
    carry_out_item(run, index, /* last= */ false);
    run->ready = 0;
}

/* Whether what is deleted may be in the item: code may have moved it there, packed, merged or
 * edited it. An edit that is a conflict keeps nothing, or each of them would keep all that is
 * deleted. */
static bool may_hold(const struct apply_item *item)
{
    if (item->marks & APPLY_UNREAD) {
        return item->status > APPLY_SAME;
    }
    if (!S_ISREG(item->source.mode) || item->source.bytes == 0) {
        return false;
    }
    if (item->status == APPLY_TO_DO) {
        return !apply_is_in_way(item) && !apply_shortens(item);
    }
    if (item->status == APPLY_ODD || item->status == APPLY_CONFLICT) {
        return item->before.mode == 0 || item->before.inode == APPLY_UNKNOWN;
    }
    return item->status > APPLY_SAME && item->status != APPLY_REFUSED; /* see find_rest() */
}

/* Finds what is left for which deletions wait, and what makes a file shorter. A new file that must
 * be named keeps only what is deleted, and one of a git directory what git does not track: what a
 * commit deletes has been committed before. What was moved there as it is keeps its own, see
 * is_last(). */
static void find_rest(struct apply_run *run)
{
    run->unfinished = run->unnamed = run->committed = false;
    for (uint32_t i = 0; i < run->journal->count; i++) {
        const struct apply_item *item = run->items[i];
        run->unfinished = run->unfinished || may_hold(item);
        bool is_new = item->status == APPLY_REFUSED && !(item->marks & APPLY_CACHED) &&
                      !item->before.mode && S_ISREG(item->source.mode) && item->source.bytes > 0;
        run->unnamed = run->unnamed || (is_new && !apply_is_of_git(item));
        run->committed = run->committed || (is_new && apply_is_of_git(item));
    }
}

/* A git directory is applied as a whole: what is known to stand against that is known before, and
 * its objects come before what names them. */
static void begin_git(struct apply_run *run)
{
    uint32_t count = run->journal->count;
    for (uint32_t i = 0; i < count; i++) {
        run->torn =
            run->torn || (apply_is_of_git(run->items[i]) && run->items[i]->status > APPLY_SAME &&
                          run->items[i]->status != APPLY_REFUSED);
    }
    for (uint32_t i = 0; i < count && apply_is_wanted(); i++) {
        if (apply_is_of_git(run->items[i]) && run->items[i]->status == APPLY_TO_DO) {
            item_check(run, i);
        }
    }
}

enum pass {
    PASS_OBJECTS, /* of git */
    PASS_MORE,    /* what takes nothing away */
    PASS_REST,    /* all but what a directory makes way for */
    PASS_LAST,    /* all but directories: what is left waits for each other */
};

/* Whether an item has its turn in a pass over what is not deleted. */
static bool is_its_turn(const struct apply_item *item, enum pass pass)
{
    if (item->status != APPLY_TO_DO || is_deletion(item)) {
        return false;
    }
    return pass == PASS_OBJECTS ? apply_is_of_git(item) && strstr(item->path, "/objects")
           : pass == PASS_LAST
               ? !S_ISDIR(item->source.mode)
               : !apply_is_in_way(item) && (pass == PASS_REST || !apply_shortens(item));
}

/* Makes the next files, from this item on, and new directories, into which they come: one flush of
 * the disk for all takes a hundredth of the time of one for each. An error is left to the item's
 * turn, which names it. Returns where it has stopped. */
static uint32_t make_ahead(struct apply_run *run, uint32_t from, enum pass pass)
{
    enum { AHEAD_MOST = 256, FEW = 8 };
    unsigned made = 0;
    uint32_t end = from;
    int first_fd = -1;
    for (bool more = true; more && end < run->journal->count && apply_is_wanted(); end++) {
        const struct apply_item *item = run->items[end];
        bool is_directory = S_ISDIR(item->source.mode);
        if (is_directory && !item->before.mode && is_its_turn(item, pass)) {
            carry_out_item(run, end, /* last= */ false);
        } else if (is_its_turn(item, pass) && item_make_ahead(run, end)) {
            first_fd = made++ ? first_fd : run->ahead[end];
        }
        /* Until a file has become a directory, nothing can come into it. */
        more = made < AHEAD_MOST && (!is_directory || !item->before.mode);
    }
    bool flushed = made > FEW && fd_flush_all(first_fd);
    for (uint32_t i = from; i < end; i++) {
        int fd = run->ahead[i];
        if (fd >= 0 && (flushed ? fd_flushed(fd) : fd_flush(fd)) < 0) {
            drop_fd(&run->ahead[i]);
        }
    }
    return end;
}

/* Returns whether any item was carried out. */
static bool apply_files(struct apply_run *run, enum pass pass)
{
    bool any = false;
    uint32_t ahead = 0;
    for (uint32_t i = 0; i < run->journal->count && apply_is_wanted(); i++) {
        struct apply_item *item = run->items[i];
        bool has_turn = is_its_turn(item, pass);
        if (has_turn && i >= ahead && pass != PASS_LAST) {
            ahead = make_ahead(run, i, pass);
        }
        if (has_turn) {
            carry_out_item(run, i, pass == PASS_LAST);
        }
        any = any || (has_turn && item->status != APPLY_TO_DO);
        drop_fd(&run->ahead[i]);
    }
    return any;
}

/* Deletions last, and only once all else is there: until then no content is gone of which DIR has
 * no other name. Nor is that which another item would replace, until that has its name. */
static void apply_all(struct apply_run *run)
{
    uint32_t count = run->journal->count;
    recover(run);
    begin_git(run);
    (void)apply_files(run, PASS_OBJECTS);
    while (apply_files(run, PASS_MORE)) {
    }
    find_rest(run);
    for (uint32_t i = 0; i < count && apply_is_wanted(); i++) {
        if (apply_is_in_way(run->items[i])) {
            must_end = true;
            make_way(run, i);
            must_end = false;
        }
    }
    while (apply_files(run, PASS_REST)) {
    }
    must_end = apply_is_wanted();
    (void)apply_files(run, PASS_LAST);
    must_end = false;
    find_rest(run);
    for (uint32_t i = count; i-- > 0;) {
        if (!apply_is_wanted()) {
            return;
        }
        carry_out_item(run, i, /* last= */ true);
    }
    run->journal->complete = 1;
}

int apply_main(void)
{
    static struct apply_run run;
    struct apply_reply reply = {};
    (void)umask(0);
    if (!apply_is_wanted()) {
        return 1;
    }
    reply.error = -take_request(&run);
    if (!reply.error) {
        apply_all(&run);
    }
    (void)packet_send(APPLY_FD, &reply, sizeof reply, NULL, 0, MSG_DONTWAIT);
    return reply.error != 0;
}
