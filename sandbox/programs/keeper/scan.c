/* Finds what each path of the workspace is. With --cow it reads the upper directory of the overlay,
 * which holds what differs from the user's directory and nothing else: a whiteout (a character
 * device 0:0) hides a name of the user's, an opaque directory all that is in his directory of that
 * name, "whiteouts and opaque directories" in filesystems/overlayfs.rst of Linux. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/keeper/keeper.h"

/* --- whether a scan is needed --- */

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

/* A scan of the directory begins, and has ended; whole: it has read all. */
static void watch_begin(struct watch *watch, int root_fd)
{
    struct stat st;
    watch->on = watch->fd >= 0 && is_local(root_fd) && fstat(root_fd, &st) == 0;
    watch->device = watch->on ? st.st_dev : 0;
}

static void watch_end(struct watch *watch, int root_fd, bool whole)
{
    /* A working directory that is removed would stay watched. */
    bool left = watch->fd < 0 || fchdir(root_fd) == 0;
    watch->on = watch->on && whole && left;
}

/* Of each directory before it is read, and of each entry. */
static void watch_directory(struct watch *watch, int fd)
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

static void watch_entry(struct watch *watch, const struct stat *st)
{
    /* Another file system may not be local, and a file's other names may be elsewhere. */
    if (st->st_dev != watch->device || (!S_ISDIR(st->st_mode) && st->st_nlink > 1)) {
        watch->on = false;
    }
}

/* --- what each path is --- */

#define OPAQUE "user.overlay.opaque"
#define ORIGIN "user.overlay.origin" /* of a file that was copied from the user's directory */

/* Directories that are still to be read. */
struct walk {
    struct keeper *keeper;
    int root_fd;
    bool unknown; /* what was in the current directory before: it could not be read */
    bool unread;  /* there is a directory that cannot be read */
    bool linked;  /* a file that has other names was found */
    bool some;    /* not below directories that were there before; and: */
    struct records found;
    bool hidden; /* of the user's directory, below a whiteout: records of it, which are not seen */
    struct {
        char **list;
        size_t count;
        size_t space;
    } paths;
    bool failed; /* no memory, or too many entries */
};

static bool is_too_deep(const char *path)
{
    unsigned depth = 0;
    for (const char *at = path; (at = strchr(at, '/')); at++) {
        depth++;
    }
    return depth >= KEEPER_DEPTH;
}

static void walk_push(struct walk *walk, const char *path)
{
    if (is_too_deep(path)) {
        walk->unread = walk->unread || !walk->keeper->cow;
        return;
    }
    char *copy = strdup(path);
    if (!copy || !array_add(&walk->paths, copy)) {
        free(copy);
        walk->failed = true;
    }
}

static int64_t ctime_of_parent(const struct keeper *keeper, const char *path)
{
    const char *name = NULL;
    struct stat st;
    defer_close int fd = place_parent(keeper->lower_fd, path, &name);
    return fd >= 0 && fstat(fd, &st) == 0 ? apply_facts_of(&st).ctime_ns : INT64_MAX;
}

/* Whether the user's directory may be another one than that which code has seen. To come to its
 * name it has been renamed, which changes it and the directory above. */
static bool is_replaced(const struct keeper *keeper, const struct record *record, const char *path)
{
    struct apply_facts facts = place_facts(keeper->lower_fd, path);
    if (!S_ISDIR(facts.mode)) {
        return false; /* code has made it */
    }
    return record && record->cow.lower_inode ? facts.inode != record->cow.lower_inode
                                             : facts.ctime_ns > keeper->seen_ns &&
                                                   ctime_of_parent(keeper, path) > keeper->seen_ns;
}

/* Whether this holds for a directory above the path: what is in it has the times of its own. */
static bool is_elsewhere(const struct keeper *keeper, const char *path)
{
    char above[KEEPER_PATH_BYTES];
    (void)snprintf(above, sizeof above, "%s", path);
    if (!path_cut_last(above)) {
        return false;
    }
    struct record *record = record_find(keeper, above);
    bool known = record && record->cow.looked == keeper->looks;
    bool is = known ? record->cow.elsewhere
                    : is_replaced(keeper, record, above) || is_elsewhere(keeper, above);
    if (record) {
        record->cow.elsewhere = is;
        record->cow.looked = keeper->looks;
    }
    return is;
}

/* Whether the user's file may be another one than that which code has seen and changed. */
static bool is_unknown(const struct keeper *keeper, const char *path,
                       const struct apply_facts *facts)
{
    if (facts->mode == 0 || keeper->again || keeper->seen_ns == 0) {
        return facts->mode && keeper->again;
    }
    return (!S_ISDIR(facts->mode) && facts->ctime_ns > keeper->seen_ns) ||
           is_elsewhere(keeper, path);
}

/* What the user's directory has becomes the record's version and base: it is how things were before
 * the change that has made the record. What is not known is a conflict. */
static void take_base(struct keeper *keeper, struct record *record)
{
    struct apply_facts facts = {};
    if (keeper->cow && place_look(keeper->lower_fd, record->path, &facts, NULL) == 0 &&
        !record->cow.based) {
        struct apply_facts base = facts;
        record->cow.based = true;
        if (is_unknown(keeper, record->path, &facts)) {
            base.inode = UINT64_MAX;
        }
        base_set(keeper, record, &base);
    }
    record->now = place_read(keeper, keeper->lower_fd, record->path, &facts);
    if (record->now) {
        version_seen_as(keeper, record->now, &facts);
    }
}

struct record *scan_record(struct keeper *keeper, const char *path)
{
    struct record *record = record_get(keeper, path);
    if (record && !record->now) {
        take_base(keeper, record);
    }
    return record && record->now ? record : NULL;
}

static struct record *walk_record(struct walk *walk, const char *path)
{
    struct record *record = scan_record(walk->keeper, path);
    walk->failed = walk->failed || !record;
    return record;
}

/* The same of a file that may have been there before, when its directory could not be read. */
static struct record *unknown_record(struct walk *walk, const char *path)
{
    struct record *record = record_get(walk->keeper, path);
    if (record && !record->now) {
        record->now = version_new(KIND_FILE);
    }
    return walk_record(walk, path);
}

static void walk_all(struct walk *walk);

/* Makes records of what the user has at path and a whiteout or opaque directory hides. */
static void hide(struct walk *walk, struct record *record, const struct apply_facts *cover)
{
    struct keeper *keeper = walk->keeper;
    if (record->cow.covers && apply_facts_alike(&record->cow.cover_facts, cover) &&
        record->cow.cover_facts.inode == cover->inode) {
        return;
    }
    bool again = keeper->again;
    keeper->again = again || record->cow.covers; /* what it hid before, code has not seen */
    record->cow.covers = true;
    record->cow.cover_facts = *cover;
    struct walk below = {.keeper = keeper, .root_fd = keeper->lower_fd, .hidden = true};
    if (S_ISDIR(place_facts(keeper->lower_fd, record->path).mode)) {
        walk_push(&below, record->path);
        walk_all(&below);
    }
    keeper->again = again;
    walk->failed = walk->failed || below.failed;
}

static bool is_opaque(int dir_fd, const char *name)
{
    char value = 0;
    defer_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fgetxattr(fd, OPAQUE, &value, 1) == 1 && value == 'y';
}

/* A file that is being written: files.c and place.c name it so. */
static bool is_temporary(const char *name)
{
    static const char start[] = ".write-";
    return strncmp(name, start, sizeof start - 1) == 0 &&
           strspn(name + sizeof start - 1, "0123456789abcdef") == 16 &&
           strlen(name) == sizeof start - 1 + 16;
}

/* In a directory of the user's that is written through, what tools keep for themselves is too much
 * to copy. */
static bool is_left_out(const struct keeper *keeper, const char *name)
{
    static const char *const names[] = {".git", ".hg",          ".svn",        ".venv", "venv",
                                        ".tox", "node_modules", "__pycache__", NULL};
    return parse_is_among(name, names) && keeper_is_plain(keeper);
}

/* Whether the user has removed the file that this one is a copy of, or the directory that it is in,
 * since code has seen it. A file that code has renamed is a copy too: so the user's directory must
 * have changed. */
static bool is_of_removed(const struct keeper *keeper, int dir_fd, const char *name,
                          const struct record *record)
{
    char above[KEEPER_PATH_BYTES];
    const char *lower_name = NULL;
    struct stat st;
    if (!keeper->cow || record->cow.base.mode || (keeper->seen_ns == 0 && !keeper->again)) {
        return false;
    }
    defer_close int lower_fd = place_parent(keeper->lower_fd, record->path, &lower_name);
    if (lower_fd < 0 || fstat(lower_fd, &st) < 0) {
        (void)snprintf(above, sizeof above, "%.*s", (int)(lower_name - record->path - 1),
                       record->path);
        const struct record *parent = record_find(keeper, above);
        return parent && (S_ISDIR(parent->cow.base.mode) || parent->cow.base.inode == UINT64_MAX);
    }
    struct apply_facts facts = apply_facts_of(&st);
    defer_close int fd = facts.ctime_ns > keeper->seen_ns
                             ? openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                             : -1;
    return fd >= 0 && fgetxattr(fd, ORIGIN, NULL, 0) >= 0;
}

/* Whether the user may have changed the mode of a directory since code has seen it: what differs is
 * then taken for theirs. */
static bool is_mode_unknown(const struct keeper *keeper, const struct record *record,
                            const struct apply_facts *facts)
{
    const struct apply_facts *base = &record->cow.base;
    return keeper->cow && S_ISDIR(facts->mode) && S_ISDIR(base->mode) &&
           ((facts->mode ^ base->mode) & ACCESSPERMS) &&
           (keeper->again || base->ctime_ns > keeper->seen_ns);
}

static void add_found(struct walk *walk, struct record *record)
{
    if (!record->listed) {
        record->listed = array_add(&walk->found, record);
        walk->failed = walk->failed || !record->listed;
    }
}

static void take_entry(struct walk *walk, int dir_fd, const char *name, const char *path)
{
    struct keeper *keeper = walk->keeper;
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (S_ISREG(st.st_mode) && is_temporary(name))) {
        return; /* it has gone, or is about to be renamed */
    }
    watch_entry(&keeper->watch, &st);
    struct apply_facts facts = apply_facts_of(&st);
    bool is_new = !record_find(keeper, path);
    struct record *record = walk->unknown && !S_ISDIR(st.st_mode) ? unknown_record(walk, path)
                                                                  : walk_record(walk, path);
    if (!record) {
        return;
    }
    if (walk->hidden) {
        if (S_ISDIR(st.st_mode)) {
            walk_push(walk, path);
        }
        return;
    }
    if (keeper->cow && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0)) {
        hide(walk, record, &facts);
        return;
    }
    if (is_new && is_of_removed(keeper, dir_fd, name, record)) {
        record->cow.base = (struct apply_facts){.inode = UINT64_MAX, .mode = S_IFREG};
        base_note(keeper, record);
    }
    if (is_new && is_mode_unknown(keeper, record, &facts)) {
        record->cow.base.mode = facts.mode;
        base_note(keeper, record);
    }
    record->stayed = record->facts.mode && record->facts.inode == facts.inode &&
                     S_ISDIR(record->facts.mode) == S_ISDIR(facts.mode);
    record->found = facts;
    record->found_links = (unsigned)st.st_nlink;
    record->round = keeper->round;
    if (walk->some) {
        add_found(walk, record);
    }
    if (keeper->cow && !S_ISDIR(st.st_mode) && S_ISDIR(record->cow.base.mode)) {
        hide(walk, record, &facts);
    }
    if (S_ISDIR(st.st_mode) && is_left_out(keeper, name)) {
        keeper->left_out = true;
    } else if (S_ISDIR(st.st_mode) && !(walk->some && record->stayed)) {
        record->unread = record->unread || (walk->unknown && !record->stayed);
        if (keeper->cow && is_opaque(dir_fd, name)) {
            hide(walk, record, &facts);
        }
        record->unread = record->unread || (keeper->cow && is_too_deep(path));
        walk_push(walk, path);
    }
}

/* Notes whether the directory can be read. Its files may have been there when it could not; with
 * --cow, the user's directory tells. */
static void note_reading(struct walk *walk, const char *at, bool reads)
{
    struct record *record = walk->hidden ? NULL : record_find(walk->keeper, at);
    walk->unknown = record && record->unread && !walk->keeper->cow;
    walk->unread = walk->unread || !reads;
    walk->failed = walk->failed || (!reads && !*at);
    if (record) {
        record->unread = !reads;
    }
}

static bool is_unread(const struct keeper *keeper, const char *path)
{
    const struct record *record = record_find(keeper, path);
    return record && record->unread && record->round == keeper->round;
}

/* What lies in a directory that cannot be read is still what it was, as far as is known. */
static void carry_on(const struct keeper *keeper, struct record *record)
{
    char path[KEEPER_PATH_BYTES];
    (void)memccpy(path, record->path, '\0', sizeof path);
    while (record->round != keeper->round && path_cut_last(path)) {
        if (is_unread(keeper, path)) {
            record->found = record->facts;
            record->found_links = record->links;
            record->stayed = true;
            record->round = keeper->round;
        }
    }
}

static void walk_directory(struct walk *walk, const char *at)
{
    char path[KEEPER_PATH_BYTES];
    int fd = fd_open_beneath(walk->root_fd, at, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    defer_closedir DIR *directory = fd_directory(fd);
    note_reading(walk, at, directory || fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP);
    if (!directory) {
        walk->keeper->watch.on = false;
        return;
    }
    struct keeper *keeper = walk->keeper;
    watch_directory(&keeper->watch, fd);
    unsigned most = keeper->own || keeper->cow ? KEEPER_RECORDS : KEEPER_ENTRIES;
    for (const char *name = NULL; !walk->failed && (name = fd_next_name(directory));) {
        int size = snprintf(path, sizeof path, "%s%s%s", at, *at ? "/" : "", name);
        if (size > 0 && (size_t)size < sizeof path) {
            take_entry(walk, fd, name, path);
        }
        walk->failed = walk->failed || ++keeper->entries > most;
    }
}

static void walk_all(struct walk *walk)
{
    while (walk->paths.count > 0) {
        char *path = walk->paths.list[--walk->paths.count];
        if (!walk->failed) {
            walk_directory(walk, path);
        }
        free(path);
    }
    free(walk->paths.list);
}

/* The user's directory of this name is known from here on, unless it has changed meanwhile. */
static void note_directory(const struct keeper *keeper, struct record *record)
{
    if (record->round == keeper->round && S_ISDIR(record->found.mode)) {
        struct apply_facts lower = place_facts(keeper->lower_fd, record->path);
        bool known = S_ISDIR(lower.mode) &&
                     (lower.ctime_ns <= keeper->fresh_ns || lower.inode == record->cow.lower_inode);
        record->cow.lower_inode = known ? lower.inode : 0;
    }
}

bool scan(struct keeper *keeper)
{
    struct walk walk = {.keeper = keeper, .root_fd = keeper_root(keeper)};
    int64_t began_ns = clock_file_ns();
    keeper->round++;
    keeper->looks++;
    keeper->entries = 0;
    keeper->left_out = false;
    watch_begin(&keeper->watch, keeper->work_fd);
    walk_push(&walk, "");
    walk_all(&walk);
    keeper->unread = walk.unread;
    struct records_at at = {};
    struct record *record = NULL;
    while (walk.unread && (record = records_next(keeper, &at))) {
        carry_on(keeper, record);
    }
    watch_end(&keeper->watch, keeper->work_fd, !walk.failed);
    if (keeper->cow && !walk.failed && !walk.unread) { /* all is known, as code saw it then */
        for (at = (struct records_at){}; (record = records_next(keeper, &at));) {
            note_directory(keeper, record);
        }
        keeper->whole_ns = began_ns < keeper->fresh_ns ? began_ns : keeper->fresh_ns;
    }
    return !walk.failed;
}

/* --- what calls have touched --- */

enum { LAST = 256 };

void scan_touch(struct keeper *keeper, const char *path, uint32_t state)
{
    const struct touched *last =
        keeper->touched.count > 0 ? &keeper->touched.list[keeper->touched.count - 1] : NULL;
    if (!*path || (last && last->state == state && strcmp(last->path, path) == 0)) {
        return;
    }
    char *copy = keeper->touched.count < KEEPER_RECORDS ? strdup(path) : NULL;
    if (!copy || !array_add(&keeper->touched, (struct touched){copy, keeper->edits.by, state})) {
        free(copy);
        keeper->touched.lost = true;
    }
}

static bool has_left(const struct keeper *keeper, const struct record *record)
{
    return record->facts.mode && S_ISDIR(record->facts.mode) &&
           (record->round != keeper->round || !record->stayed);
}

/* What is at path, and whether a directory has left it, with all that is in it. */
static void take_path(struct walk *walk, const char *path, bool *ret_left)
{
    struct keeper *keeper = walk->keeper;
    const char *name = NULL;
    struct record *record = record_find(keeper, path);
    if (!record || record->round != keeper->round) {
        struct stat st;
        defer_close int dir_fd = place_parent(walk->root_fd, path, &name);
        if (dir_fd >= 0) {
            take_entry(walk, dir_fd, name, path);
        }
        /* A scan of all knows what to make of directories that cannot be read. */
        walk->failed =
            walk->failed || dir_fd == -EACCES ||
            (dir_fd >= 0 && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == EACCES);
        record = record_find(keeper, path);
    }
    if (record) {
        add_found(walk, record);
        *ret_left = *ret_left || has_left(keeper, record);
        walk->linked = walk->linked || record->links > 1 || record->found_links > 1;
    }
}

static void take_left(struct walk *walk, struct record *record)
{
    const struct keeper *keeper = walk->keeper;
    char path[KEEPER_PATH_BYTES];
    (void)memccpy(path, record->path, '\0', sizeof path);
    while (!record->listed && path_cut_last(path)) {
        const struct record *above = record_find(keeper, path);
        if (above && above->listed && has_left(keeper, above)) {
            add_found(walk, record);
        }
    }
}

static void set_maker(struct keeper *keeper, const struct touched *touched)
{
    struct record *record = record_find(keeper, touched->path);
    if (record && record->listed) {
        bool first = record->making != keeper->round;
        record->maker = first || record->maker == touched->state ? touched->state : 0;
        record->making = keeper->round;
    }
}

/* Whether what was touched may still be to come. last: of threads, what each has touched last; from
 * there on nothing that it has touched before is. */
static bool may_come(const struct keeper *keeper, const struct touched *touched,
                     uint32_t last[LAST])
{
    uint32_t *slot = &last[touched->by.thread % LAST];
    bool over = *slot == touched->by.thread;
    *slot = *slot ? *slot : touched->by.thread;
    return !over && toucher_is_coming(keeper, &touched->by);
}

static bool may_change(const struct keeper *keeper, const char *path)
{
    struct record *record = record_find(keeper, path);
    bool first = record && record->listed; /* once */
    if (first) {
        record->listed = false;
    }
    return first && record->round == keeper->round && S_ISREG(record->found.mode) &&
           place_is_written(keeper, path) == 1;
}

/* Forgets what was touched, but for what may still be to come, and files that are open. */
static void forget_touched(struct keeper *keeper)
{
    uint32_t last[LAST] = {};
    size_t kept = keeper->touched.count;
    for (size_t i = keeper->touched.count; i-- > 0;) {
        struct touched touched = keeper->touched.list[i];
        bool comes = may_come(keeper, &touched, last);
        if (may_change(keeper, touched.path) || comes) {
            keeper->touched.list[--kept] = touched;
        } else {
            free(touched.path);
        }
    }
    memmove(keeper->touched.list, keeper->touched.list + kept,
            (keeper->touched.count - kept) * sizeof *keeper->touched.list);
    keeper->touched.count -= kept;
}

struct record **scan_touched(struct keeper *keeper, size_t *ret_count)
{
    struct walk walk = {.keeper = keeper, .root_fd = keeper->work_fd, .some = true};
    bool left = false;
    keeper->round++;
    keeper->looks++;
    keeper->entries = 0;
    for (size_t i = 0; i < keeper->touched.count && !walk.failed; i++) {
        char path[KEEPER_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s", keeper->touched.list[i].path);
        take_path(&walk, path, &left);
        set_maker(keeper, &keeper->touched.list[i]);
        while (path_cut_last(path)) { /* what has come or gone has changed the directories above */
            take_path(&walk, path, &left);
        }
    }
    walk_all(&walk);
    struct records_at linked = {};
    struct record *record = NULL;
    while (walk.linked && (record = records_next(keeper, &linked))) {
        /* A file that was written to under one of its names has changed under all. */
        if (!record->listed && record->links > 1) {
            take_path(&walk, record->path, &(bool){false});
        }
    }
    struct records_at at = {};
    while (left && (record = records_next(keeper, &at))) {
        take_left(&walk, record);
    }
    if (keeper->touched.count > 0) {
        forget_touched(keeper);
    }
    for (size_t i = 0; i < walk.found.count; i++) {
        walk.found.list[i]->listed = false;
    }
    keeper->touched.lost = walk.failed;
    *ret_count = walk.failed ? 0 : walk.found.count;
    return walk.found.list;
}
