#include "tools/changes/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/quote.h"
#include "tools/files/content.h"

enum { NAMES_SHOWN = 10 }; /* in one line */

/* Also in quotes: what would read as another part of its line. */
static int append_path(struct buf *out, const char *path)
{
    bool odd = strpbrk(path, " ()[]|,:;") || strchr("+~-#", path[0]);
    return quote_append(out, "", path, strlen(path), odd);
}

size_t changes_count(const void *records, size_t size)
{
    size_t count = 0;
    for (const struct change_record *at = NULL; (at = change_record_next(records, size, at));) {
        count++;
    }
    return count;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* "[7 changes", without an end. */
static int append_count(struct buf *out, size_t count)
{
    return count ? buf_appendf(out, "[%zu change%s", count, plural(count))
                 : buf_append_text(out, "[no changes");
}

int changes_text_running(unsigned processes, struct buf *out)
{
    static const char end[] = "]\n";
    if (processes == 0) {
        return 0;
    }
    out->end -= strlen(end);
    return buf_appendf(out, "; %u process%s of code still run%s, and may change more]\n", processes,
                       processes == 1 ? "" : "es", processes == 1 ? "s" : "");
}

/* Appends lines that fit, in front of the last one. */
struct lines {
    struct buf *out;
    size_t begin;    /* bytes before them */
    size_t left_out; /* lines */
};

static bool lines_have_space(const struct lines *lines, size_t size)
{
    return lines->left_out == 0 && buf_size(lines->out) - lines->begin + size <= LIMIT_TEXT_BYTES;
}

/* Whether no line fits any more: then counts one, which need not be made. Code chooses how many
 * there are. */
static bool lines_leave_out(struct lines *lines)
{
    lines->left_out += lines->left_out > 0;
    return lines->left_out > 0;
}

static int append_line(struct lines *lines, const struct buf *line)
{
    if (!lines_have_space(lines, buf_size(line))) {
        lines->left_out++;
        return 0;
    }
    return buf_append(lines->out, buf_bytes(line), buf_size(line));
}

/* Names the paths under which nothing has changed. has: tells it. Returns how many. */
static int append_unchanged(struct lines *lines, const struct changes_paths *paths,
                            bool (*has)(const void *arg, const char *path), const void *arg,
                            size_t *ret_count)
{
    *ret_count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        OWNED(buf_done) struct buf line = BUF_EMPTY;
        if (has(arg, paths->at[i])) {
            continue;
        }
        ++*ret_count;
        int r = buf_append_text(&line, "no changes: ");
        r = r ? r : paths->at[i][0] ? append_path(&line, paths->at[i]) : buf_append(&line, ".", 1);
        r = r ? r : buf_append(&line, "\n", 1);
        r = r ? r : append_line(lines, &line);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* --- list_changes --- */

/* " +12 -3", " 18 kB", " symlink" */
static int append_what(struct buf *out, const struct change_record *record)
{
    char human[16];
    const char *target = change_record_target(record);
    if (S_ISDIR(record->mode)) {
        return 0;
    }
    if (S_ISLNK(record->mode)) {
        int r = buf_append_text(out, target ? " symlink to " : " symlink");
        return r || !target ? r : append_path(out, target);
    }
    if (!S_ISREG(record->mode)) {
        return buf_append_text(out, " special file");
    }
    if (record->sign == '+' || record->added == UINT32_MAX) {
        return buf_appendf(out, " %s", content_size(record->bytes, human));
    }
    return record->added || record->removed
               ? buf_appendf(out, " +%u -%u", record->added, record->removed)
               : 0;
}

static int append_facts(struct buf *out, const struct change_record *record)
{
    if (record->sign == '-') {
        return 0;
    }
    int r = append_what(out, record);
    return r || !change_record_shows_mode(record)
               ? r
               : buf_appendf(out, " mode %03o", record->mode & 07777);
}

static int append_marks(struct buf *out, const struct changes_view *view,
                        const struct change_record *record)
{
    struct refused refused;
    int r = record->flags & CHANGE_UNREADABLE ? buf_append_text(out, " (not readable)") : 0;
    if (r == 0 && (record->flags & CHANGE_INVISIBLE)) {
        r = buf_append_text(out, " (adds invisible characters)");
    }
    if (r == 0 && (record->flags & CHANGE_IN_DIR)) {
        r = buf_append_text(out, " (changed in DIR since)");
    }
    const char *const *named = (const char *const *)view->paths->at;
    size_t count = view->paths->count;
    if (r == 0 && view->rules &&
        refused_find(view->rules, record->path, record->flags & CHANGE_BARE, named, count,
                     &refused)) {
        OWNED(buf_done) struct buf name = BUF_EMPTY;
        r = buf_append(&name, record->path, refused.size);
        r = r ? r : buf_append(&name, "", 1);
        r = r ? r : buf_append_text(out, " (only if named: ");
        r = r ? r : append_path(out, buf_bytes(&name));
        r = r ? r : buf_append_text(out, ")");
    }
    return r;
}

static int append_change(struct lines *lines, const struct changes_view *view,
                         const struct change_record *record)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    if (lines_leave_out(lines)) {
        return 0;
    }
    int r = buf_appendf(&line, "%c ", record->sign);
    r = r ? r : append_path(&line, record->path);
    r = r ? r : buf_append_text(&line, S_ISDIR(record->mode) ? "/" : "");
    r = r ? r : append_facts(&line, record);
    r = r ? r : append_marks(&line, view, record);
    r = r ? r : buf_append(&line, "\n", 1);
    return r ? r : append_line(lines, &line);
}

static bool view_has(const void *arg, const char *path)
{
    const struct changes_view *view = arg;
    const struct change_record *at = NULL;
    do {
        at = change_record_next(view->records, view->size, at);
    } while (at && !refused_is_in(at->path, path));
    return at != NULL;
}

/* Goes through the records twice: changes to what the user has come before what is new, of which a
 * build or a cache makes so much that the rest would find no space. */
struct walk {
    const struct change_record *at;
    bool is_new;
};

static bool walk_next(const struct changes_view *view, struct walk *walk)
{
    for (;;) {
        walk->at = change_record_next(view->records, view->size, walk->at);
        if (walk->at && (walk->at->sign == '+') == walk->is_new) {
            return true;
        }
        if (!walk->at && walk->is_new) {
            return false;
        }
        walk->is_new = walk->is_new || !walk->at;
    }
}

/* Sorted by their names where all have space. */
static int append_changes(struct lines *lines, const struct changes_view *view)
{
    OWNED(buf_done) struct buf sorted = BUF_EMPTY;
    struct lines whole = {.out = &sorted};
    int r = 0;
    for (const struct change_record *at = NULL;
         r == 0 && whole.left_out == 0 &&
         (at = change_record_next(view->records, view->size, at));) {
        r = append_change(&whole, view, at);
    }
    if (r < 0 || (whole.left_out == 0 && lines_have_space(lines, buf_size(&sorted)))) {
        return r ? r : buf_append(lines->out, buf_bytes(&sorted), buf_size(&sorted));
    }
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        r = append_change(lines, view, walk.at);
    }
    return r;
}

int changes_text_list(const struct changes_view *view, struct buf *out)
{
    struct lines lines = {.out = out, .begin = buf_size(out)};
    size_t unchanged = 0;
    int r = append_unchanged(&lines, view->paths, view_has, view, &unchanged);
    r = r ? r : append_changes(&lines, view);
    r = r ? r : append_count(out, changes_count(view->records, view->size));
    if (r == 0 && lines.left_out > 0) {
        r = buf_appendf(out, "; %zu not listed: list one directory after the other with paths",
                        lines.left_out);
    }
    return r ? r : buf_append_text(out, "]\n");
}

/* --- the patch --- */

/* Appends "; 2 not shown, too long: big.txt, data.csv" for the records that fn selects. */
static int append_names(struct buf *out, const struct changes_view *view, const char *what,
                        bool (*fn)(const struct change_record *record, uint64_t *space),
                        size_t *ret_count)
{
    OWNED(buf_done) struct buf names = BUF_EMPTY;
    uint64_t space = LIMIT_TEXT_BYTES;
    *ret_count = 0;
    int r = 0;
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        if (fn(walk.at, &space) && ++*ret_count <= NAMES_SHOWN) {
            r = buf_append_text(&names, *ret_count > 1 ? ", " : "");
            r = r ? r : append_path(&names, walk.at->path);
        }
    }
    if (r < 0 || *ret_count == 0) {
        return r;
    }
    r = buf_appendf(out, "; %zu %s: ", *ret_count, what);
    r = r ? r : buf_append(out, buf_bytes(&names), buf_size(&names));
    return r || *ret_count <= NAMES_SHOWN
               ? r
               : buf_appendf(out, " and %zu more", *ret_count - NAMES_SHOWN);
}

/* Whether the file's part of the patch has no space; else takes it. */
static bool is_too_long(const struct change_record *record, uint64_t *space)
{
    bool fits = record->patch_size <= *space;
    *space -= fits ? record->patch_size : 0;
    return !fits;
}

static bool is_not_in_patch(const struct change_record *record, uint64_t *)
{
    return record->patch_size == 0;
}

int changes_text_patch(const struct changes_view *view, changes_patch_fn read, void *arg,
                       struct buf *out)
{
    struct lines lines = {.out = out, .begin = buf_size(out)};
    uint64_t space = LIMIT_TEXT_BYTES;
    size_t unchanged = 0;
    size_t hidden = 0;
    size_t without = 0;
    int r = 0;
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        if (!is_too_long(walk.at, &space) && walk.at->patch_size > 0) {
            r = read(arg, walk.at->patch_at, (size_t)walk.at->patch_size, out);
        }
    }
    lines.begin = buf_size(out);
    r = r ? r : append_unchanged(&lines, view->paths, view_has, view, &unchanged);
    r = r ? r : append_count(out, changes_count(view->records, view->size));
    r = r ? r : append_names(out, view, "not in a patch", is_not_in_patch, &without);
    r = r ? r : append_names(out, view, "not shown, too long", is_too_long, &hidden);
    if (r == 0 && hidden > 0) {
        r = buf_appendf(out, "; the whole patch: %s", view->patch_path);
    }
    return r ? r : buf_append_text(out, "]\n");
}

/* --- apply_changes --- */

/* A name that has to be named, with its NUL and padding. */
struct changes_refused {
    size_t size;
    size_t size_before; /* of the one before it; 0: it is the first */
    size_t changes;
    bool is_git;
    bool is_torn; /* a git directory of which something is a conflict */
    char name[];
};

static struct changes_refused *refused_next(const struct changes_applied *applied,
                                            const struct changes_refused *last)
{
    const char *begin = buf_bytes(&applied->refused);
    const char *next = last ? (const char *)last + last->size : begin;
    return buf_size(&applied->refused) > 0 && next < begin + buf_size(&applied->refused)
               ? (void *)(uintptr_t)next
               : NULL;
}

/* The note for the first size bytes of path, or NULL. Changes come sorted, so the notes after it
 * are for names in that one, as when paths names a part of it. Where they are many it gets another.
 */
static struct changes_refused *note_of(const struct changes_applied *applied, const char *path,
                                       size_t size)
{
    enum { NOTES_BACK = 100 };
    const char *end = buf_bytes(&applied->refused) + buf_size(&applied->refused);
    size_t back = applied->refused_last;
    for (unsigned i = 0; back > 0 && i < NOTES_BACK; i++) {
        end -= back;
        struct changes_refused *at = (void *)(uintptr_t)end;
        if (strncmp(at->name, path, size) != 0) {
            return NULL;
        }
        if (!at->name[size]) {
            return at;
        }
        back = at->size_before;
    }
    return NULL;
}

int changes_refuse(struct changes_applied *applied, const char *path, const struct refused *refused)
{
    struct changes_refused *at = note_of(applied, path, refused->size);
    applied->refused_count++;
    if (at) {
        at->changes++;
        return 0;
    }
    size_t align = _Alignof(struct changes_refused);
    size_t size =
        (offsetof(struct changes_refused, name) + refused->size + 1 + align - 1) / align * align;
    char *space = NULL;
    int r = buf_reserve(&applied->refused, size, &space);
    if (r < 0) {
        return r;
    }
    const struct changes_refused head = {.size = size,
                                         .size_before = applied->refused_last,
                                         .changes = 1,
                                         .is_git = strcmp(refused->row, ".git") == 0,
                                         .is_torn = strcmp(refused->row, CHANGES_TORN) == 0};
    memset(space, 0, size);
    memcpy(space, &head, offsetof(struct changes_refused, name));
    memcpy(space + offsetof(struct changes_refused, name), path, refused->size);
    buf_commit(&applied->refused, size);
    applied->refused_last = size;
    return 0;
}

void changes_applied_done(struct changes_applied *applied)
{
    buf_done(&applied->refused);
}

static bool applied_has(const void *arg, const char *path)
{
    const struct changes_applied *applied = arg;
    const struct apply_item *item = NULL;
    const struct changes_refused *refused = NULL;
    while (applied->journal && (item = apply_journal_next(applied->journal, item))) {
        if (refused_is_in(item->path, path)) {
            return true;
        }
    }
    while ((refused = refused_next(applied, refused))) {
        if (refused_is_in(refused->name, path) || refused_is_in(path, refused->name)) {
            return true;
        }
    }
    return false;
}

static const char *error_text(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "the disk is full";
    case EACCES:
    case EPERM:
        return "the user may not read or write it";
    case EROFS:
        return "DIR is read-only";
    case ENOTDIR:
    case ELOOP:
        return "in DIR something above it is not a directory";
    case ENAMETOOLONG:
        return "DIR takes no name that long";
    default:
        return strerror(error);
    }
}

static const char *reason_of(const struct apply_item *item)
{
    switch ((enum apply_status)item->status) {
    case APPLY_TO_DO:
        return "not reached; call apply_changes again";
    case APPLY_CONFLICT:
        return "changed in DIR since this change was begun; see list_changes with diff, then "
               "discard or redo the change";
    case APPLY_BUSY:
        return "is being written; apply it when that has ended";
    case APPLY_ODD:
        return "a device, FIFO or socket, here or in DIR; only files, directories and symlinks are "
               "applied";
    case APPLY_FULL:
        return "this directory holds something else in DIR, so it stays there";
    case APPLY_WRITTEN:
        return "another process has it open for writing in DIR; apply it when that has ended";
    case APPLY_FAILED:
        return error_text(item->error);
    case APPLY_DONE:
    case APPLY_SAME:
    case APPLY_STATUS_COUNT:
    default:
        return NULL;
    }
}

/* Counts the item, as a list does. */
static int append_item(struct lines *lines, const struct apply_item *item, size_t *all,
                       size_t *done)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    const char *reason = reason_of(item);
    bool counts = !(item->marks & APPLY_IMPLIED);
    *all += counts;
    *done += counts && !reason;
    bool is_shown = reason || (counts && item->status == APPLY_DONE &&
                               item->marks & (APPLY_UNLISTED | APPLY_RELISTED));
    if (!is_shown || lines_leave_out(lines)) {
        return 0;
    }
    char sign = (char)(item->before.mode == 0 ? '+' : item->source.mode == 0 ? '-' : '~');
    int r = reason ? 0 : buf_appendf(&line, "%c ", sign);
    r = r ? r : append_path(&line, item->path);
    r = r        ? r
        : reason ? buf_appendf(&line, ": %s\n", reason)
                 : buf_append_text(&line, item->marks & APPLY_RELISTED
                                              ? " (not as it was listed: changed since)\n"
                                              : "\n");
    return r ? r : append_line(lines, &line);
}

static int append_refused(struct lines *lines, const struct changes_refused *refused,
                          const struct changes_paths *paths)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    if (lines_leave_out(lines)) {
        return 0;
    }
    bool is_below = false; /* a path in it is named, which does not suffice for .git */
    for (size_t i = 0; i < paths->count; i++) {
        is_below = is_below || refused_is_in(paths->at[i], refused->name);
    }
    int r = append_path(&line, refused->name);
    if (r == 0 && refused->changes > 1) {
        r = buf_appendf(&line, " (%zu changes)", refused->changes);
    }
    if (r == 0 && refused->is_torn) {
        r = buf_append_text(&line,
                            ": changed in DIR since, and is applied as a whole or not at "
                            "all; discard it, or tell the user\n");
        return r ? r : append_line(lines, &line);
    }
    r = r ? r
          : buf_append_text(&line, refused->is_git && is_below
                                       ? ": is applied as a whole or not at all; name "
                                       : ": programs run it by themselves; apply it by naming ");
    r = r                             ? r
        : refused->is_git && is_below ? append_path(&line, refused->name)
                                      : buf_append_text(&line, "it");
    r = r ? r : buf_append_text(&line, " in paths\n");
    return r ? r : append_line(lines, &line);
}

/* Appends "[2 changes not applied]". */
static int append_left(struct buf *out, const struct lines *lines, size_t left)
{
    int r = lines->left_out ? buf_appendf(out, "and %zu more lines\n", lines->left_out) : 0;
    return r                 ? r
           : left == 0       ? buf_append_text(out, "[no changes left]\n")
           : left < SIZE_MAX ? buf_appendf(out, "[%zu change%s not applied]\n", left, plural(left))
                             : buf_append_text(out, "[see list_changes for what is left]\n");
}

static int append_head(struct buf *out, const char *word, size_t done, size_t all)
{
    return all ? buf_appendf(out, "%s %zu of %zu\n", word, done, all) : 0;
}

struct tally {
    const char *word;
    size_t done;
    size_t all;
    size_t left; /* changes that are still there */
};

/* The whole result: a head, the lines of what was not done, and what is left. */
static int append_all(struct buf *out, const struct lines *lines, struct tally tally)
{
    int r = append_head(out, tally.word, tally.done, tally.all);
    r = r ? r : buf_append(out, buf_bytes(lines->out), buf_size(lines->out));
    return r                                   ? r
           : tally.all == 0 && tally.left == 0 ? buf_append_text(out, "[no changes]\n")
                                               : append_left(out, lines, tally.left);
}

int changes_text_applied(const struct changes_applied *applied, const struct changes_paths *paths,
                         size_t left, struct buf *out, bool *ret_is_error)
{
    OWNED(buf_done) struct buf rest = BUF_EMPTY;
    struct lines lines = {.out = &rest};
    size_t all = applied->refused_count;
    size_t done = 0;
    size_t unchanged = 0;
    int r = append_unchanged(&lines, paths, applied_has, applied, &unchanged);
    const struct apply_item *item = NULL;
    while (r == 0 && applied->journal && (item = apply_journal_next(applied->journal, item))) {
        r = append_item(&lines, item, &all, &done);
    }
    const struct changes_refused *refused = NULL;
    while (r == 0 && (refused = refused_next(applied, refused))) {
        r = append_refused(&lines, refused, paths);
    }
    *ret_is_error = done < all || unchanged > 0;
    return r ? r : append_all(out, &lines, (struct tally){"applied", done, all, left});
}

int changes_text_discarded(const struct changes_view *view, size_t left, struct buf *out,
                           bool *ret_is_error)
{
    OWNED(buf_done) struct buf rest = BUF_EMPTY;
    struct lines lines = {.out = &rest};
    size_t all = changes_count(view->records, view->size);
    size_t done = all;
    size_t unchanged = 0;
    int r = append_unchanged(&lines, view->paths, view_has, view, &unchanged);
    for (const struct change_record *at = NULL;
         r == 0 && (at = change_record_next(view->records, view->size, at));) {
        if (at->flags & CHANGE_NOT_DONE) {
            OWNED(buf_done) struct buf line = BUF_EMPTY;
            done--;
            r = append_path(&line, at->path);
            r = r ? r : buf_appendf(&line, ": %s\n", strerror(at->error));
            r = r ? r : append_line(&lines, &line);
        }
    }
    *ret_is_error = done < all || unchanged > 0;
    return r ? r : append_all(out, &lines, (struct tally){"discarded", done, all, left});
}
