/* With --cow: what differs from the user's directory, and what becomes of it. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/word.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/common/git_index.h"
#include "sandbox/programs/keeper/keeper.h"
#include "sandbox/programs/keeper/patch.h"
#include "sandbox/protocol/apply_journal.h"

/* --- the base --- */

static uint64_t *hash_key(void)
{
    static uint64_t key[2];
    if (!key[0]) {
        (void)getrandom(key, sizeof key, 0);
        key[0] |= 1;
    }
    return key;
}

/* What the user's files were when each change was begun, in a file of the store: a later server
 * continues from there. Each entry is facts and a path with its NUL; of several for a path the last
 * one holds. The file is the server's own, code cannot reach it; a write that was cut short by a
 * kill ends what is read. */
#define BASE_NAME "base"
#define BASE_FRESH "base.new"

enum { BASE_MOST_BYTES = 256 << 20 };

static int base_open(const struct keeper *keeper, int flags)
{
    return keeper->store_fd < 0 ? -1
                                : openat(keeper->store_fd, BASE_NAME,
                                         flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void take(struct keeper *keeper, const char *bytes, size_t size)
{
    struct apply_facts facts;
    for (size_t at = 0; at + sizeof facts < size;) {
        const char *path = bytes + at + sizeof facts;
        const char *end = memchr(path, '\0', size - at - sizeof facts);
        struct record *record = end && apply_path_is_valid(path) ? record_get(keeper, path) : NULL;
        if (!end) {
            return;
        }
        if (record) {
            memcpy(&record->cow.base, bytes + at, sizeof facts);
            record->cow.based = true;
        }
        at = (size_t)(end + 1 - bytes);
    }
}

void base_load(struct keeper *keeper)
{
    struct stat st;
    defer_close int fd = base_open(keeper, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > BASE_MOST_BYTES) {
        return;
    }
    char *bytes = malloc((size_t)st.st_size);
    ssize_t got = bytes ? read(fd, bytes, (size_t)st.st_size) : -1;
    if (got > 0) {
        take(keeper, bytes, (size_t)got);
    }
    free(bytes);
}

static void append_entry(struct buf *out, const struct record *record)
{
    (void)buf_append(out, &record->cow.base, sizeof record->cow.base);
    (void)buf_append(out, record->path, strlen(record->path) + 1);
}

/* Each server writes the file again, so that it does not grow with what comes and goes, and nothing
 * is added after an entry that was cut short. */
void base_loaded(struct keeper *keeper)
{
    OWNED(buf_done) struct buf entries = BUF_EMPTY;
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        if (!record->now) {
            record_drop(keeper, record);
        } else if (record->cow.based) {
            append_entry(&entries, record);
        }
    }
    if (keeper->store_fd >= 0 && buf_error(&entries) == 0) {
        (void)unlinkat(keeper->store_fd, BASE_FRESH, 0);
        defer_close int fd = openat(keeper->store_fd, BASE_FRESH,
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 && fd_write_all(fd, buf_bytes(&entries), buf_size(&entries)) == 0) {
            (void)renameat(keeper->store_fd, BASE_FRESH, keeper->store_fd, BASE_NAME);
        }
    }
}

void base_note(const struct keeper *keeper, const struct record *record)
{
    OWNED(buf_done) struct buf entry = BUF_EMPTY;
    if (keeper->store_fd < 0) {
        return;
    }
    defer_close int fd = base_open(keeper, O_WRONLY | O_APPEND);
    append_entry(&entry, record);
    if (fd >= 0 && buf_error(&entry) == 0) {
        (void)write(fd, buf_bytes(&entry), buf_size(&entry));
    }
}

/* --- indexes of git, without what git has noted of the files in the work tree: `git status` writes
 * one again for that alone --- */

/* Clears that. Returns where the entries end; 0: the bytes are no index that can be compared. */
static size_t blank_index(unsigned char *bytes, size_t size)
{
    struct git_index index;
    const char *path = NULL;
    if (!git_index_begin(&index, bytes, size)) {
        return 0;
    }
    for (unsigned char *entry = NULL; (entry = git_index_next(&index, &path));) {
        memset(entry, 0, GIT_ENTRY_MODE);
        memset(entry + GIT_ENTRY_MODE + 4, 0, GIT_ENTRY_OBJECT - GIT_ENTRY_MODE - 4);
    }
    /* A split index, whose other entries are in another file, begins its extensions with that. */
    size_t at = index.at;
    return at == 0 || at + 4 > size || memcmp(bytes + at, "link", 4) == 0 ? 0 : at;
}

/* The hash of what a git directory's index lists, which facts describe. 0: the path is no index's,
 * or the file none that can be compared. */
static uint64_t index_hash(int root_fd, const char *path, const struct apply_facts *facts,
                           const uint64_t key[2])
{
    enum { MOST_BYTES = 64 << 20 };
    bool may = strcmp(path_last(path), "index") == 0 && apply_path_git_size(path) > 0 &&
               S_ISREG(facts->mode) && facts->bytes <= MOST_BYTES;
    unsigned char *bytes = may ? calloc(1, facts->bytes + 1) : NULL;
    bool is_read = bytes && place_content(root_fd, path, facts, (char *)bytes);
    size_t size = is_read ? blank_index(bytes, facts->bytes) : 0;
    uint64_t hash = size > 0 ? content_hash_bytes((const char *)bytes, size, key) : 0;
    free(bytes);
    return hash;
}

void base_set(const struct keeper *keeper, struct record *record, const struct apply_facts *facts)
{
    record->cow.base = *facts;
    record->cow.index_hash = index_hash(keeper->lower_fd, record->path, facts, hash_key());
    base_note(keeper, record);
}

/* --- the survey --- */

/* Of the content that is there now; 0: it could not be read. */
static uint64_t hash_of(const struct keeper *keeper, const struct record *record)
{
    uint64_t hash = 0;
    defer_close int fd =
        S_ISREG(record->facts.mode)
            ? fd_open_beneath(keeper->upper_fd, record->path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
            : -1;
    return fd >= 0 && content_hash(fd, record->facts.bytes, hash_key(), &hash) == 0 ? hash : 0;
}

/* Compares the records with the user's directory. A file that is what the user has is no change,
 * even if the upper directory holds a copy of it: nothing is ever removed from there, because
 * changing a layer of a mounted overlay is undefined (filesystems/overlayfs.rst of Linux). */

/* `git status` of the user's changes nothing of what an index lists. */
static bool is_same_index(const struct keeper *keeper, const struct record *record,
                          const struct apply_facts *lower)
{
    return record->cow.index_hash &&
           index_hash(keeper->lower_fd, record->path, lower, hash_key()) == record->cow.index_hash;
}

/* lower: of the user's file as it is now. */
static void compare(struct keeper *keeper, struct record *record, const struct apply_facts *lower)
{
    if (record->cow.compared && apply_facts_alike(&record->cow.compared_to, lower)) {
        return;
    }
    bool is_as_begun = apply_facts_alike(&record->cow.base, lower);
    if (!is_as_begun && !record->cow.same && is_same_index(keeper, record, lower)) {
        is_as_begun = true;
        base_set(keeper, record, lower);
    }
    record->cow.compared = true;
    record->cow.compared_to = *lower;
    record->cow.differs =
        !place_same(keeper->upper_fd, &record->facts, keeper->lower_fd, lower, record->path);
    keeper->pending_known = false;
    if (!record->cow.differs && !is_as_begun) {
        base_set(keeper, record, lower); /* both are the same: a change from here on is new */
    }
    /* As long as its facts stay, what was hashed does. */
    if (record->cow.differs ? is_as_begun : !record->cow.same || !record->cow.same_hash) {
        record->cow.same = !record->cow.differs;
        record->cow.same_hash = record->cow.same ? hash_of(keeper, record) : 0;
    }
}

/* Of a directory that could not be read. */
static bool change_is_unread(const struct record *record)
{
    return S_ISDIR(record->facts.mode) && record->unread;
}

/* Whether the change has a line of its own. A directory has one only where no file in it tells of
 * it, as git has it. list: sorted, from the record on. */
static bool change_has_line(struct record *const *list, size_t count)
{
    const struct record *record = list[0];
    bool is_there = S_ISDIR(record->facts.mode);
    bool was_there = S_ISDIR(record->cow.compared_to.mode);
    if (!record->cow.differs || change_is_unread(record)) {
        return record->cow.differs;
    }
    if (!is_there && !(was_there && record->facts.mode == 0)) {
        return true;
    }
    if (is_there && record->cow.compared_to.mode != 0) {
        return true; /* other mode bits, or a file before */
    }
    if (is_there && record->facts.mode & (S_IWGRP | S_IWOTH)) {
        return true; /* which no file in it tells */
    }
    for (size_t i = 1; i < count && apply_path_is_below(list[i]->path, record->path); i++) {
        if (is_there ? list[i]->facts.mode != 0 : list[i]->cow.differs) {
            return false;
        }
    }
    return true;
}

static void compare_all(struct keeper *keeper, struct record *const *list, size_t count, bool look)
{
    for (size_t i = 0; i < count; i++) {
        struct apply_facts lower = list[i]->cow.compared_to;
        /* What code writes to a mapping that it has used before changes no facts. */
        list[i]->cow.compared = list[i]->cow.compared && !(look && S_ISREG(list[i]->facts.mode));
        if (look || !list[i]->cow.compared) {
            lower = place_facts(keeper->lower_fd, list[i]->path);
        }
        compare(keeper, list[i], &lower);
    }
}

unsigned changes_count(struct keeper *keeper)
{
    size_t count = 0;
    if (keeper->pending_known) {
        return keeper->pending;
    }
    struct record **list = records_sorted(keeper, &count);
    keeper->pending = 0;
    if (list) {
        compare_all(keeper, list, count, /* look= */ false);
    }
    for (size_t i = 0; list && i < count; i++) {
        /* What a run of tests leaves is nothing to apply. */
        keeper->pending +=
            path_cache_size(list[i]->path) == 0 && change_has_line(list + i, count - i);
    }
    free(list);
    keeper->pending_known = true;
    return keeper->pending;
}

/* Whether the user has something at path, or will have it after the changes, as the last scan has
 * found them. Both count: what is deleted stays in the user's directory where that deletion is not
 * carried out, for a conflict, or because code puts the file back meanwhile. */
static bool is_there(const struct keeper *keeper, const char *path)
{
    const struct record *record = record_find(keeper, path);
    return record ? record->facts.mode != 0 || record->cow.compared_to.mode != 0
                  : place_facts(keeper->lower_fd, path).mode != 0;
}

struct inside {
    const struct keeper *keeper;
    const char *path; /* of a directory */
};

static bool is_inside(const void *arg, const char *name)
{
    const struct inside *inside = arg;
    char text[KEEPER_PATH_BYTES + 16];
    (void)snprintf(text, sizeof text, "%s%s%s", inside->path, *inside->path ? "/" : "", name);
    return is_there(inside->keeper, text);
}

static bool is_git_directory(const struct keeper *keeper, const char *path)
{
    return git_is_directory(is_inside, &(struct inside){keeper, path});
}

/* Finds what lies in a directory of the user's that is gone, or another one by now. Sorted. */
static void find_adrift(struct record *const *list, size_t count)
{
    const struct record *top = NULL;
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        bool is_same = S_ISDIR(record->cow.compared_to.mode) &&
                       record->cow.compared_to.inode == record->cow.base.inode;
        record->cow.adrift = top && apply_path_is_below(record->path, top->path);
        if (!record->cow.adrift) {
            top = S_ISDIR(record->facts.mode) && S_ISDIR(record->cow.base.mode) && !is_same ? record
                                                                                            : NULL;
        }
    }
}

/* Whether what is to be changed in the user's directory is no longer what code has seen there. */
static bool change_is_conflict(const struct record *record)
{
    return record->cow.adrift || !apply_facts_alike(&record->cow.base, &record->cow.compared_to);
}

/* Finds which records lie in a git repository without a .git, whose hooks and config git takes for
 * its own. Sorted: a directory comes before what is in it. */
static void find_bare(const struct keeper *keeper, struct record *const *list, size_t count)
{
    bool is_bare = is_git_directory(keeper, "");
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        char path[KEEPER_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s", record->path);
        const struct record *parent = path_cut_last(path) ? record_find(keeper, path) : NULL;
        bool is_directory = S_ISDIR(record->facts.mode) || S_ISDIR(record->cow.compared_to.mode);
        record->cow.in_bare = parent ? parent->cow.in_bare || parent->cow.is_bare : is_bare;
        record->cow.is_bare = is_directory && is_git_directory(keeper, record->path);
    }
}

/* All records, sorted, compared with the user's directory as it is now: heap. NULL: none;
 * *ret_error: why. */
static struct record **changes_survey(struct keeper *keeper, size_t *ret_count, int *ret_error)
{
    states_look(keeper);
    changes_follow(keeper);
    struct record **list = records_sorted(keeper, ret_count);
    if (!list || keeper->too_many) {
        *ret_error = list ? -E2BIG : -ENOMEM;
        *ret_count = 0;
        free(list);
        return NULL;
    }
    compare_all(keeper, list, *ret_count, /* look= */ true);
    find_adrift(list, *ret_count);
    find_bare(keeper, list, *ret_count);
    return list;
}

/* What differs from the user's directory, with --cow: lists it, writes a patch of it, discards it,
 * and collects what is to be applied. */

/* --- lists and patches --- */

struct listing {
    struct keeper *keeper;
    struct buf records;
    uint64_t work;     /* of comparing lines, for the whole list */
    bool shows;        /* what is listed is seen */
    int patch_fd;      /* -1: no patch */
    uint64_t patch_at; /* its size so far */
    int error;
};

/* The content for a comparison of lines: heap, or NULL. */
static char *content(int root_fd, const char *path, const struct apply_facts *facts)
{
    bool file = S_ISREG(facts->mode) && facts->bytes <= PATCH_FILE_BYTES;
    bool link = S_ISLNK(facts->mode) && facts->bytes < KEEPER_PATH_BYTES;
    char *data = file || link ? calloc(1, facts->bytes + 1) : NULL;
    if (data && !place_content(root_fd, path, facts, data)) {
        free(data);
        data = NULL;
    }
    return data;
}

/* For a person who reads the patch: what git has no line for. */
static void append_comment(struct buf *out, const struct record *record,
                           const struct change_record *change)
{
    if (!change_record_shows_mode(change) && !(change->flags & CHANGE_INVISIBLE)) {
        return;
    }
    (void)buf_append_text(out, "# ");
    (void)quote_append(out, "", record->path, strlen(record->path), /* force= */ false);
    (void)buf_append_text(out, ":");
    if (change_record_shows_mode(change)) {
        (void)buf_appendf(out, " mode %03o", change->mode & ACCESSPERMS);
    }
    if (change->flags & CHANGE_INVISIBLE) {
        (void)buf_append_text(out, " adds invisible characters");
    }
    (void)buf_append_text(out, "\n");
}

/* Whether it is an object of a git repository: compressed, and nobody reads it as text. */
static bool is_object(const struct record *record)
{
    size_t size = apply_path_git_size(record->path);
    const char *inside = size > 0 ? record->path + size : record->path;
    return size > 0 ? strncmp(inside, "/objects/", strlen("/objects/")) == 0
                    : record->cow.in_bare && strstr(inside, "objects/");
}

static void write_patch(struct listing *listing, struct record *record,
                        struct change_record *change)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    OWNED(buf_done) struct buf part = BUF_EMPTY;
    struct keeper *keeper = listing->keeper;
    struct patch_counts counts = {.added = UINT32_MAX, .removed = UINT32_MAX};
    bool wants_text = listing->patch_fd >= 0;
    char *old = content(keeper->lower_fd, record->path, &record->cow.compared_to);
    char *new = content(keeper->upper_fd, record->path, &record->facts);
    const struct patch_file sides[2] = {
        {record->cow.compared_to.mode, record->cow.compared_to.bytes, old},
        {record->facts.mode, record->facts.bytes, new}};
    int r = patch_write(record->path, &sides[0], &sides[1], &listing->work,
                        wants_text ? &text : NULL, &counts);
    change->added = counts.added;
    change->removed = counts.removed;
    change->flags |= counts.invisible && !is_object(record) ? CHANGE_INVISIBLE : 0;
    change->flags |= utf8_is_whole(buf_bytes(&text), buf_size(&text)) ? 0 : CHANGE_RAW;
    if (S_ISREG(record->facts.mode)) {
        /* Of the bytes that the list shows: the file may be another one at the next moment. */
        record->cow.listed_hash = new ? content_hash_bytes(new, record->facts.bytes, hash_key())
                                      : hash_of(keeper, record);
        change->flags |= record->cow.listed_hash ? 0 : CHANGE_UNREADABLE;
    }
    if (change->sign != '~') {
        const char *bytes = new ? new : old;
        uint64_t size = new ? record->facts.bytes : record->cow.compared_to.bytes;
        change->hash = bytes ? content_hash_bytes(bytes, size, hash_key()) : 0;
    }
    free(old);
    free(new);
    if (wants_text && r == 0) {
        append_comment(&part, record, change);
        buf_append_buf(&part, &text);
        r = buf_error(&part);
    }
    if (r == 0 && buf_size(&part) > 0) {
        r = fd_write_all(listing->patch_fd, buf_bytes(&part), buf_size(&part));
        change->patch_at = listing->patch_at;
        change->patch_size = buf_size(&part);
        listing->patch_at += buf_size(&part);
    }
    listing->error = r ? r : listing->error;
}

/* --- what a list has shown --- */

/* The marks of what is applied now; hash: of its content. */
static uint32_t listed_marks(const struct record *record, uint64_t hash)
{
    const struct apply_facts *shown = &record->cow.listed_facts;
    if (!record->cow.listed) {
        return APPLY_UNLISTED;
    }
    bool same = S_ISREG(record->facts.mode)
                    ? shown->mode == record->facts.mode && hash && hash == record->cow.listed_hash
                    : apply_facts_alike(shown, &record->facts);
    return same ? 0 : APPLY_RELISTED;
}

static void list_record(struct listing *listing, struct record *record, int error)
{
    char target[KEEPER_PATH_BYTES] = "";
    const struct apply_facts *lower = &record->cow.compared_to;
    const struct apply_facts *shown = record->facts.mode ? &record->facts : lower;
    struct change_record change = {
        .sign = (char)(lower->mode == 0          ? '+'
                       : record->facts.mode == 0 ? '-'
                                                 : '~'),
        .flags = (uint8_t)((change_is_conflict(record) ? CHANGE_IN_DIR : 0) |
                           (record->cow.in_bare ? CHANGE_BARE : 0) | (error ? CHANGE_NOT_DONE : 0) |
                           (change_is_unread(record) ? CHANGE_UNREADABLE : 0)),
        .before = (uint16_t)(lower->mode & 0777),
        .mode = shown->mode,
        .bytes = shown->bytes,
        .error = -error,
        .added = UINT32_MAX,
        .removed = UINT32_MAX,
    };
    if (!error && listing->shows) {
        record->cow.listed = true;
        record->cow.listed_facts = record->facts;
        write_patch(listing, record, &change);
    }
    bool has_target =
        S_ISLNK(record->facts.mode) && record->facts.bytes < sizeof target &&
        place_content(listing->keeper->upper_fd, record->path, &record->facts, target);
    target[has_target ? record->facts.bytes : 0] = '\0';
    if (change_record_add(&listing->records, &change, record->path, target) < 0) {
        listing->error = -ENOMEM;
    }
}

static void reply_listing(struct listing *listing, const struct wire_request *request)
{
    defer_close int fd = listing->error ? -1 : keeper_memfd(&listing->records);
    struct wire_reply reply = {.id = request->id,
                               .error = listing->error ? -listing->error
                                        : fd < 0       ? -fd
                                                       : 0};
    const int fds[2] = {fd, listing->patch_fd};
    keeper_reply(listing->keeper, &reply, fds, fd < 0 ? 0 : listing->patch_fd < 0 ? 1 : 2);
    buf_done(&listing->records);
}

/* A patch that is there is somebody's to read: this makes another file of the name. */
static int open_patch(const struct keeper *keeper)
{
    (void)unlinkat(keeper->output_fd, CHANGE_PATCH_NAME, 0);
    int fd = openat(keeper->output_fd, CHANGE_PATCH_NAME,
                    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    return fd < 0 ? -errno : fd;
}

void changes_list(struct keeper *keeper, const struct wire_request *request)
{
    struct listing listing = {.keeper = keeper,
                              .records = BUF_EMPTY,
                              .work = DIFF_WORK,
                              .shows = request->list != KEEP_LIST_COUNTS,
                              .patch_fd = -1};
    size_t count = 0;
    if (request->list == KEEP_LIST_PATCH) {
        listing.patch_fd = open_patch(keeper);
        listing.error = listing.patch_fd < 0 ? listing.patch_fd : 0;
    }
    struct record **list = changes_survey(keeper, &count, &listing.error);
    for (size_t i = 0; i < count && !listing.error; i++) {
        if (change_has_line(list + i, count - i) && keeper_wants(keeper, list[i]->path)) {
            list_record(&listing, list[i], 0);
        }
    }
    free(list);
    reply_listing(&listing, request);
    own_close(&listing.patch_fd);
}

/* --- discarding --- */

/* Removes what blocks the user's file, and files that only the sandbox has. */
static int discard_new(const struct keeper *keeper, const struct record *record)
{
    bool in_way = (record->facts.mode ^ record->cow.compared_to.mode) & (unsigned)S_IFMT;
    int r = record->facts.mode && in_way ? place_remove(keeper, record->path) : 0;
    return r == -ENOTEMPTY ? 0 : r; /* what is in it was not to be discarded */
}

static int discard_old(const struct keeper *keeper, const struct record *record)
{
    return record->cow.compared_to.mode
               ? place_copy(keeper, keeper->lower_fd, record->path, &record->cow.compared_to)
               : 0;
}

/* Puts the user's files in place of those whose scratch.mark has 1. listing: gets a line of those
 * that have 2 too; or NULL. */
static void take_theirs(struct keeper *keeper, struct record *const *list, size_t count,
                        struct listing *listing)
{
    for (size_t i = count; i > 0; i--) { /* what is in a directory before the directory */
        struct record *record = list[i - 1];
        record->scratch.error = record->scratch.mark & 1 ? discard_new(keeper, record) : 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        const struct apply_facts lower = record->cow.compared_to;
        if (!(record->scratch.mark & 1)) {
            continue;
        }
        record->scratch.error =
            record->scratch.error ? record->scratch.error : discard_old(keeper, record);
        if (listing && record->scratch.mark & 2) {
            list_record(listing, record, record->scratch.error);
        }
        if (!record->scratch.error) {
            base_set(keeper, record, &lower);
        }
        bool was_directory = S_ISDIR(record->facts.mode);
        states_foreign(keeper, record);
        if (S_ISDIR(record->facts.mode) &&
            !was_directory) { /* it hides the user's: follow_below() */
            record->cow.covers = true;
            record->cow.cover_facts = record->facts;
        }
        compare(keeper, record, &lower);
    }
}

void changes_discard(struct keeper *keeper, const struct wire_request *request)
{
    struct listing listing = {.keeper = keeper, .records = BUF_EMPTY, .patch_fd = -1};
    size_t count = 0;
    struct record **list = changes_survey(keeper, &count, &listing.error);
    for (size_t i = 0; i < count; i++) {
        list[i]->scratch.mark =
            (list[i]->cow.differs && keeper_wants(keeper, list[i]->path) ? 1U : 0) |
            (change_has_line(list + i, count - i) ? 2U : 0);
    }
    take_theirs(keeper, list, count, &listing);
    free(list);
    reply_listing(&listing, request);
}

/* --- following the user --- */

/* The overlay shows what the upper directory has for ever, and nothing may be removed from there.
 * So what was the same on both sides, and what code has not changed since, becomes what the user
 * has made of it: a file that was applied, discarded, or taken back by an undo. */

static bool is_untouched(const struct keeper *keeper, const struct record *record)
{
    return !S_ISREG(record->facts.mode) ||
           (record->cow.same_hash && place_is_written(keeper, record->path) != 1 &&
            hash_of(keeper, record) == record->cow.same_hash);
}

/* Whether an opaque directory hides what the user has in this one. */
static bool is_covered(const struct keeper *keeper, const struct record *record)
{
    char above[KEEPER_PATH_BYTES];
    bool covered = record->cow.covers;
    (void)snprintf(above, sizeof above, "%s", record->path);
    while (!covered && path_cut_last(above)) {
        const struct record *parent = record_find(keeper, above);
        covered = parent && parent->cow.covers;
    }
    return covered;
}

/* Copies what no record tells of. directories: gets those that it has made. */
static void follow_entry(struct keeper *keeper, const char *path, struct records *directories)
{
    struct apply_facts lower = place_facts(keeper->lower_fd, path);
    if (record_find(keeper, path) || !lower.mode ||
        place_copy(keeper, keeper->lower_fd, path, &lower) < 0) {
        return;
    }
    struct record *record = scan_record(keeper, path);
    if (record) {
        states_foreign(keeper, record);
        compare(keeper, record, &lower);
        (void)(S_ISDIR(lower.mode) && array_add(directories, record));
    }
}

/* Shows what the user has put into a directory that an opaque one hides, since it does. */
static void follow_below(struct keeper *keeper, struct record *above, struct records *directories)
{
    char path[KEEPER_PATH_BYTES];
    struct apply_facts lower = place_facts(keeper->lower_fd, above->path);
    if (!S_ISDIR(lower.mode) || lower.ctime_ns == above->cow.below_ns) {
        return;
    }
    /* It may change again in the same tick of the clock. */
    above->cow.below_ns = lower.ctime_ns < keeper->fresh_ns ? lower.ctime_ns : 0;
    int fd = fd_open_beneath(keeper->lower_fd, above->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    defer_closedir DIR *directory = fd_directory(fd);
    for (const char *name = NULL; directory && (name = fd_next_name(directory));) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", above->path, name) < sizeof path) {
            follow_entry(keeper, path, directories);
        }
    }
}

enum { BEHIND = 1, REPLACED = 4 };

/* What is to be done to have what the user has: BEHIND; REPLACED, they have put another directory
 * of the same mode there, and what code changes in it from here on is of that one; or 0. */
static unsigned mark_of(struct keeper *keeper, struct record *record)
{
    struct apply_facts lower;
    if (!record->cow.same || !record->now ||
        place_look(keeper->lower_fd, record->path, &lower, NULL) < 0) {
        return 0;
    }
    if (apply_facts_alike(&record->cow.base, &lower)) {
        return S_ISDIR(lower.mode) && lower.inode != record->cow.base.inode ? REPLACED : 0;
    }
    compare(keeper, record, &lower);
    return record->cow.differs && is_untouched(keeper, record) ? BEHIND : 0;
}

/* Whether nothing in a directory is a change. list: sorted, from the directory on. */
static bool is_quiet_below(struct record *const *list, size_t count)
{
    size_t i = 1;
    while (i < count && apply_path_is_below(list[i]->path, list[0]->path) && list[i]->cow.same) {
        i++;
    }
    return i == count || !apply_path_is_below(list[i]->path, list[0]->path);
}

static void follow_all(struct keeper *keeper, struct record *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool stays = S_ISDIR(list[i]->facts.mode) && !is_quiet_below(list + i, count - i);
        list[i]->scratch.mark = stays ? 0 : list[i]->scratch.mark;
        if (list[i]->scratch.mark == REPLACED) {
            list[i]->cow.compared_to = place_facts(keeper->lower_fd, list[i]->path);
            base_set(keeper, list[i], &list[i]->cow.compared_to);
        }
    }
    take_theirs(keeper, list, count, NULL);
}

void changes_follow(struct keeper *keeper)
{
    size_t count = 0;
    bool some = false;
    struct records directories = {};
    struct records_at at = {};
    if (!keeper->cow || keeper->too_many) {
        return;
    }
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        record->scratch.mark = mark_of(keeper, record);
        some = some || record->scratch.mark;
    }
    struct record **list = some ? records_sorted(keeper, &count) : NULL;
    if (list) {
        follow_all(keeper, list, count);
    }
    free(list);
    at = (struct records_at){};
    for (struct record *record = NULL; (record = records_next(keeper, &at));) {
        bool hides = S_ISDIR(record->facts.mode) && is_covered(keeper, record);
        (void)(hides && array_add(&directories, record));
    }
    while (directories.count > 0) {
        follow_below(keeper, directories.list[--directories.count], &directories);
    }
    free(directories.list);
}

/* --- applying --- */

/* The journal of the last request, which the server fills in. */
static int journal_fd = -1;

/* A git directory with a conflict: none of it is to be applied. */
static void mark_torn(const struct apply_journal *journal, const char *path)
{
    size_t size = apply_path_git_size(path);
    for (struct apply_item *item = NULL; size > 0 && (item = apply_journal_next(journal, item));) {
        if (strncmp(item->path, path, size) == 0 &&
            (item->path[size] == '/' || item->path[size] == '\0')) {
            item->marks |= APPLY_TORN;
        }
    }
}

/* Notes in which directories of the user's the item is, as far as they exist. */
static void note_above(const struct keeper *keeper, struct apply_item *item)
{
    char above[KEEPER_PATH_BYTES];
    for (const char *slash = strchr(item->path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(above, sizeof above, "%.*s", (int)(slash - item->path), item->path);
        struct apply_facts facts = place_facts(keeper->lower_fd, above);
        if (!S_ISDIR(facts.mode)) {
            break;
        }
        item->parent = facts.inode;
        item->above++;
    }
}

static int collect(struct keeper *keeper, struct record *const *list, size_t count)
{
    OWNED(buf_done) struct buf journal = BUF_EMPTY;
    int r = apply_journal_begin(&journal, 0, 0);
    if (r == 0) {
        memcpy(((struct apply_journal *)(void *)(journal.data + journal.start))->key, hash_key(),
               sizeof(uint64_t[2]));
    }
    for (size_t i = 0; i < count && r == 0; i++) {
        struct record *record = list[i];
        if (record->cow.differs && keeper_wants(keeper, record->path)) {
            size_t at = buf_size(&journal);
            const struct apply_facts unknown = {.inode = APPLY_UNKNOWN, .mode = S_IFREG};
            r = apply_journal_add(&journal, record->path,
                                  record->cow.adrift ? &unknown : &record->cow.base,
                                  &record->facts);
            struct apply_item *item = r ? NULL : (void *)(journal.data + journal.start + at);
            if (item) {
                item->hash = hash_of(keeper, record);
                note_above(keeper, item);
                item->marks = (change_has_line(list + i, count - i) ? 0 : APPLY_IMPLIED) |
                              (record->cow.in_bare ? APPLY_BARE : 0) |
                              (change_is_unread(record) ? APPLY_UNREAD : 0) |
                              listed_marks(record, item->hash);
            }
        }
    }
    const struct apply_journal *whole = (const void *)(journal.data + journal.start);
    for (const struct apply_item *item = NULL;
         r == 0 && (item = apply_journal_next(whole, item));) {
        const struct record *record = record_find(keeper, item->path);
        if (record && !(item->marks & APPLY_TORN) && change_is_conflict(record)) {
            mark_torn(whole, item->path);
        }
    }
    return r ? r : keeper_memfd(&journal);
}

void changes_collect(struct keeper *keeper, const struct wire_request *request)
{
    size_t count = 0;
    int error = 0;
    drop_fd(&journal_fd);
    struct record **list = changes_survey(keeper, &count, &error);
    journal_fd = list ? collect(keeper, list, count) : error;
    free(list);
    struct wire_reply reply = {.id = request->id, .error = journal_fd < 0 ? -journal_fd : 0};
    const int fds[WIRE_FDS] = {journal_fd, keeper->upper_fd};
    keeper_reply(keeper, &reply, fds, journal_fd < 0 ? 0 : WIRE_FDS);
}

static void take_item(struct keeper *keeper, const struct apply_item *item)
{
    struct record *record = record_find(keeper, item->path);
    if (record && (item->status == APPLY_DONE || item->status == APPLY_SAME)) {
        base_set(keeper, record, &item->after);
        record->cow.compared = false;
        record->cow.applied = item->status == APPLY_DONE;
        /* Whatever the user has made of it since. */
        struct apply_facts upper = place_facts(keeper->upper_fd, record->path);
        if (S_ISREG(upper.mode) && apply_facts_equal(&upper, &item->source) &&
            apply_facts_equal(&upper, &record->facts)) {
            record->cow.same_hash = hash_of(keeper, record);
            record->cow.same = true;
        }
        keeper->pending_known = false;
    }
}

void changes_applied(struct keeper *keeper, const struct wire_request *request)
{
    struct stat st = {};
    void *bytes = MAP_FAILED;
    if (journal_fd >= 0 && fstat(journal_fd, &st) == 0 && st.st_size > 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, journal_fd, 0);
    }
    bool valid = bytes != MAP_FAILED && apply_journal_is_valid(bytes, (size_t)st.st_size);
    for (const struct apply_item *item = NULL; valid && (item = apply_journal_next(bytes, item));) {
        take_item(keeper, item);
    }
    if (bytes != MAP_FAILED) {
        (void)munmap(bytes, (size_t)st.st_size);
    }
    drop_fd(&journal_fd);
    keeper_reply(keeper, &(struct wire_reply){.id = request->id, .error = valid ? 0 : EPROTO}, NULL,
                 0);
}
