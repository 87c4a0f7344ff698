/* What differs from the user's directory, with --cow: lists it, writes a patch of it, discards it,
 * and collects what is to be applied. */
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
#include "base/git.h"
#include "base/own.h"
#include "base/quote.h"
#include "sandbox/programs/common/content.h"
#include "sandbox/programs/keeper/changes.h"
#include "sandbox/programs/keeper/diff.h"
#include "sandbox/programs/keeper/patch.h"
#include "sandbox/programs/keeper/survey.h"
#include "sandbox/protocol/change_record.h"

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
    char *data = file || link ? malloc(facts->bytes + 1) : NULL;
    if (data && !place_content(root_fd, path, facts, data)) {
        free(data);
        data = NULL;
    }
    return data;
}

static uint64_t *hash_key(void)
{
    static uint64_t key[2];
    if (!key[0]) {
        (void)getrandom(key, sizeof key, 0);
        key[0] |= 1;
    }
    return key;
}

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
    change->flags |= counts.invisible ? CHANGE_INVISIBLE : 0;
    if (S_ISREG(record->facts.mode)) {
        /* Of the bytes that the list shows: the file may be another one at the next moment. */
        record->cow.listed_hash = new ? content_hash_bytes(new, record->facts.bytes, hash_key())
                                      : hash_of(keeper, record);
        change->flags |= record->cow.listed_hash ? 0 : CHANGE_UNREADABLE;
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
    enum { TYPE = S_IFMT };
    bool in_way = (record->facts.mode & TYPE) != (record->cow.compared_to.mode & TYPE);
    int r = record->facts.mode && in_way ? place_remove(keeper, record->path) : 0;
    return r == -ENOTEMPTY ? 0 : r; /* what is in it was not to be discarded */
}

static int discard_old(const struct keeper *keeper, const struct record *record)
{
    return record->cow.compared_to.mode
               ? place_copy(keeper, keeper->lower_fd, record->path, &record->cow.compared_to)
               : 0;
}

void changes_discard(struct keeper *keeper, const struct wire_request *request)
{
    struct listing listing = {
        .keeper = keeper, .records = BUF_EMPTY, .work = DIFF_WORK, .patch_fd = -1};
    size_t count = 0;
    struct record **list = changes_survey(keeper, &count, &listing.error);
    for (size_t i = 0; i < count; i++) {
        list[i]->scratch.mark =
            (list[i]->cow.differs && keeper_wants(keeper, list[i]->path) ? 1U : 0) |
            (change_has_line(list + i, count - i) ? 2U : 0);
    }
    for (size_t i = count; i > 0; i--) { /* what is in a directory before the directory */
        struct record *record = list[i - 1];
        record->scratch.error = record->scratch.mark & 1 ? discard_new(keeper, record) : 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct record *record = list[i];
        if (!(record->scratch.mark & 1)) {
            continue;
        }
        record->scratch.error =
            record->scratch.error ? record->scratch.error : discard_old(keeper, record);
        if (record->scratch.mark & 2) {
            list_record(&listing, record, record->scratch.error);
        }
        if (!record->scratch.error) {
            record->cow.base = record->cow.compared_to;
            base_note(keeper, record);
        }
        states_foreign(keeper, record);
    }
    free(list);
    reply_listing(&listing, request);
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
        struct apply_facts facts;
        (void)snprintf(above, sizeof above, "%.*s", (int)(slash - item->path), item->path);
        if (place_look(keeper->lower_fd, above, &facts, NULL) < 0 || !S_ISDIR(facts.mode)) {
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
    own_close(&journal_fd);
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
        record->cow.base = item->after;
        record->cow.compared = false;
        record->cow.applied = item->status == APPLY_DONE;
        keeper->pending_known = false;
        base_note(keeper, record);
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
    own_close(&journal_fd);
    journal_fd = -1;
    keeper_reply(keeper, &(struct wire_reply){.id = request->id, .error = valid ? 0 : EPROTO}, NULL,
                 0);
}
