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
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/apply/apply.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/apply_journal.h"
#include "sandbox/protocol/packet.h"

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
    bool is_ready = !run->unfinished && !run->unnamed && apply_item_can_be_made(run, index);
    for (uint32_t i = index; i < end && is_ready; i++) {
        is_ready = !S_ISDIR(run->items[i]->before.mode) ||
                   !has_others(run, run->items[i]->path, run->items + i + 1, end - i - 1);
    }
    run->ready = is_ready ? index + 1 : 0;
    while (--end > index) {
        if (is_ready && is_deletion(run->items[end])) {
            apply_item(run, end, /* last= */ true);
        }
    }
    apply_item(run, index, /* last= */ false);
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
 * be named, as git's objects, keeps only what is deleted: code that commits does not expect more.
 */
static void find_rest(struct apply_run *run)
{
    run->unfinished = run->unnamed = false;
    for (uint32_t i = 0; i < run->journal->count; i++) {
        const struct apply_item *item = run->items[i];
        run->unfinished = run->unfinished || may_hold(item);
        run->unnamed = run->unnamed ||
                       (item->status == APPLY_REFUSED && !(item->marks & APPLY_CACHED) &&
                        !item->before.mode && S_ISREG(item->source.mode) && item->source.bytes > 0);
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
            apply_item_check(run, i);
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
            apply_item(run, end, /* last= */ false);
        } else if (is_its_turn(item, pass) && apply_item_make_ahead(run, end)) {
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
            apply_item(run, i, pass == PASS_LAST);
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
    apply_recover(run);
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
        apply_item(run, i, /* last= */ true);
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
