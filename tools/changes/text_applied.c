#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "tools/changes/text.h"

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
        return "the user's directory is read-only";
    case ENOTDIR:
    case ELOOP:
        return "a parent of this path is not a directory in the user's directory";
    case ENAMETOOLONG:
        return "name too long for the file system of the user's directory";
    case EOPNOTSUPP: /* attributes_copy() */
        return "not applied: its access control list or extended attributes cannot be kept";
    default:
        return strerror(error);
    }
}

static const char *reason_of(const struct apply_item *item)
{
    static const char *const reasons[APPLY_STATUS_COUNT] = {
        [APPLY_TO_DO] = "not reached; call apply_changes again",
        [APPLY_CONFLICT] =
            "conflict: the user has changed this file too; the diff of list_changes is against "
            "theirs, and would take that back; discard this path to have the user's in the "
            "workspace, and make the change again there",
        [APPLY_BUSY] = "is being written; apply it when that has ended",
        [APPLY_ODD] = "not a regular file, directory or symlink",
        [APPLY_FULL] = "directory kept: it contains other files of the user's",
        [APPLY_WRITTEN] = "another process has it open for writing; apply it when that has ended",
        [APPLY_LAST] =
            "kept: the changes that are not applied may have its content; apply them "
            "first, or name it in paths",
    };
    if (item->status == APPLY_FAILED) {
        return item->marks & APPLY_UNREAD
                   ? "directory not applied: what is in it could not be read, or lies too deep"
                   : error_text(item->error);
    }
    return item->status < APPLY_STATUS_COUNT ? reasons[item->status] : NULL;
}

/* Counts the item, as a list does. */
static void append_item(struct lines *lines, const struct changes_applied *applied,
                        const struct apply_item *item, size_t *all, size_t *done)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    const char *reason = reason_of(item);
    bool counts = !(item->marks & APPLY_IMPLIED) && item->status != APPLY_REFUSED;
    *all += counts;
    *done += counts && !reason;
    bool is_unseen = item->marks & (APPLY_UNLISTED | APPLY_RELISTED) ||
                     json_object_get(applied->unshown, item->path);
    bool is_shown = reason || (counts && item->status == APPLY_DONE && is_unseen);
    if (!is_shown || lines_leave_out(lines)) {
        return;
    }
    char sign = (char)(item->before.mode == 0 ? '+' : item->source.mode == 0 ? '-' : '~');
    buf_append(&line, (char[]){sign, ' '}, reason ? 0 : 2);
    text_append_path(&line, item->path);
    buf_appendf(&line, "%s%s\n", reason ? ": " : "",
                reason                         ? reason
                : item->marks & APPLY_RELISTED ? " (not as it was listed: changed since)"
                                               : "");
    lines_append(lines, &line);
}

static void append_refused(struct lines *lines, const struct changes_refused *refused,
                           const struct changes_paths *paths)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    if (lines_leave_out(lines)) {
        return;
    }
    bool is_below = false; /* a path in it is named, which does not suffice for .git */
    for (size_t i = 0; i < paths->count; i++) {
        is_below = is_below || refused_is_in(paths->at[i], refused->name);
    }
    text_append_path(&line, refused->name);
    if (refused->changes > 1) {
        buf_appendf(&line, " (%zu changes)", refused->changes);
    }
    if (refused->is_torn) {
        buf_append_text(&line,
                        ": conflict in this git directory, which is applied whole or not at "
                        "all; discard it, or tell the user\n");
    } else if (refused->is_git && is_below) {
        buf_append_text(&line, ": is applied as a whole or not at all; name ");
        text_append_path(&line, refused->name);
        buf_append_text(&line, " in paths\n");
    } else {
        buf_append_text(&line,
                        ": other programs run it automatically; name it in paths to apply it\n");
    }
    lines_append(lines, &line);
}

/* Appends "[2 changes not applied]". */
static void append_left(struct buf *out, const struct lines *lines, const struct changes_end *end)
{
    size_t left = end->left;
    if (lines->left_out) {
        buf_appendf(out, "and %zu more lines%s%s\n", lines->left_out,
                    end->path ? "; all are in " : "", end->path ? end->path : "");
    }
    if (left == 0) {
        buf_append_text(out, "[no changes left]\n");
    } else if (left < SIZE_MAX) {
        buf_appendf(out, "[%zu change%s not applied", left, text_plural(left));
        if (end->cached + end->ignored > 0) {
            buf_appendf(out, ", %zu of them %s, which are applied only if named",
                        end->cached + end->ignored, text_left(end->cached > 0, end->ignored > 0));
        }
        buf_append_text(out, "]\n");
    } else {
        buf_append_text(out, "[see list_changes for what is left]\n");
    }
}

struct tally {
    size_t done;
    size_t all;
    bool is_missed;   /* something that nobody would leave */
    size_t unchanged; /* paths under which nothing has changed */
};

/* The whole result: a head, the lines of what was not done, and what is left. */
static void append_all(struct buf *out, const struct lines *lines, const char *word,
                       const struct tally *tally, struct changes_end *end)
{
    end->is_cut = lines->left_out > 0;
    end->is_error = tally->is_missed || (tally->done == 0 && tally->all + tally->unchanged > 0);
    if (tally->all) {
        buf_appendf(out, "%s %zu of %zu\n", word, tally->done, tally->all);
    }
    buf_append_buf(out, lines->out);
    if (tally->all == 0 && end->left == 0) {
        buf_append_text(out, "[no changes]\n");
    } else {
        append_left(out, lines, end);
    }
}

static void append_applied(struct lines *lines, const struct changes_applied *applied,
                           const struct changes_paths *paths, struct tally *tally)
{
    *tally = (struct tally){.all = applied->refused_count};
    lines_append_unchanged(lines, paths, applied_has, applied, &tally->unchanged);
    const struct apply_item *item = NULL;
    while (applied->journal && (item = apply_journal_next(applied->journal, item))) {
        append_item(lines, applied, item, &tally->all, &tally->done);
        tally->is_missed |= paths->count > 0 && item->status == APPLY_CONFLICT;
    }
    const struct changes_refused *refused = NULL;
    while ((refused = refused_next(applied, refused))) {
        append_refused(lines, refused, paths);
        tally->is_missed |= paths->count > 0 && refused->is_torn;
    }
}

int changes_text_applied(const struct changes_applied *applied, const struct changes_paths *paths,
                         struct changes_end *end, struct buf *out)
{
    OWNED(buf_done) struct buf rest = BUF_EMPTY;
    struct lines lines = {.out = &rest};
    struct tally tally;
    append_applied(&lines, applied, paths, &tally);
    append_all(out, &lines, "applied", &tally, end);
    return buf_error(out);
}

int changes_text_applied_whole(const struct changes_applied *applied,
                               const struct changes_paths *paths, struct buf *out)
{
    struct lines lines = {.out = out, .all = true};
    struct tally tally;
    append_applied(&lines, applied, paths, &tally);
    return buf_error(out);
}

int changes_text_discarded(const struct changes_view *view, struct changes_end *end,
                           struct buf *out)
{
    OWNED(buf_done) struct buf rest = BUF_EMPTY;
    struct lines lines = {.out = &rest};
    struct tally tally = {.all = changes_count(view->records, view->size)};
    tally.done = tally.all;
    lines_append_unchanged(&lines, view->paths, changes_view_have, view, &tally.unchanged);
    for (const struct change_record *at = NULL;
         (at = change_record_next(view->records, view->size, at));) {
        if (at->flags & CHANGE_NOT_DONE) {
            OWNED(buf_done) struct buf line = BUF_EMPTY;
            tally.done--;
            tally.is_missed = true;
            text_append_path(&line, at->path);
            buf_appendf(&line, ": %s\n", strerror(at->error));
            lines_append(&lines, &line);
        }
    }
    append_all(out, &lines, "discarded", &tally, end);
    return buf_error(out);
}

void text_append_path(struct buf *out, const char *path)
{
    bool odd = strpbrk(path, " ()[]|,:;") || strchr("+~-#", path[0]);
    quote_append(out, "", path, strlen(path), odd);
}

const char *text_plural(size_t count)
{
    return count == 1 ? "" : "s";
}

const char *text_left(bool cached, bool ignored)
{
    return !ignored ? "in caches"
           : cached ? "in caches or ignored by .gitignore"
                    : "ignored by .gitignore";
}

bool lines_have_space(const struct lines *lines, size_t size)
{
    return lines->all ||
           (lines->left_out == 0 && buf_size(lines->out) - lines->begin + size <= LIMIT_TEXT_BYTES);
}

bool lines_leave_out(struct lines *lines)
{
    lines->left_out += lines->left_out > 0;
    return lines->left_out > 0;
}

void lines_append(struct lines *lines, const struct buf *line)
{
    if (!lines_have_space(lines, buf_size(line))) {
        lines->left_out++;
        return;
    }
    buf_append_buf(lines->out, line);
}

void lines_append_unchanged(struct lines *lines, const struct changes_paths *paths,
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
        buf_append_text(&line, "no changes: ");
        text_append_path(&line, paths->at[i][0] ? paths->at[i] : ".");
        buf_append_text(&line, changes_paths_is_there(paths, i) ? ""
                               : strpbrk(paths->at[i], "*?[")
                                   ? " (there is no such file: globs are "
                                     "not expanded)"
                                   : " (there is no such file)");
        buf_append(&line, "\n", 1);
        lines_append(lines, &line);
    }
}
