#include "tools/changes/text.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "tools/changes/lines.h"
#include "tools/content/content.h"

enum { NAMES_SHOWN = 10 }; /* in one line */

size_t changes_count(const void *records, size_t size)
{
    size_t count = 0;
    for (const struct change_record *at = NULL; (at = change_record_next(records, size, at));) {
        count++;
    }
    return count;
}

/* "[7 changes", without an end. */
static int append_count(struct buf *out, size_t count)
{
    return count ? buf_appendf(out, "[%zu change%s", count, text_plural(count))
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
        return r || !target ? r : text_append_path(out, target);
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
        r = buf_append_text(out, " (also changed by you)");
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
        r = r ? r : text_append_path(out, buf_bytes(&name));
        r = r ? r : buf_append_text(out, ")");
    }
    return r;
}

/* Whether the model has seen the change: what it has not is named when it is applied. */
static void note_shown(const struct changes_view *view, const struct change_record *record,
                       bool shown)
{
    if (shown) {
        (void)json_object_del(view->unshown, record->path);
    } else {
        (void)json_object_set_new_nocheck(view->unshown, record->path, json_true());
    }
}

static int append_change(struct lines *lines, const struct changes_view *view,
                         const struct change_record *record)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    if (lines_leave_out(lines)) {
        return 0;
    }
    int r = buf_appendf(&line, "%c ", record->sign);
    r = r ? r : text_append_path(&line, record->path);
    r = r ? r : buf_append_text(&line, S_ISDIR(record->mode) ? "/" : "");
    r = r ? r : append_facts(&line, record);
    r = r ? r : append_marks(&line, view, record);
    r = r ? r : buf_append(&line, "\n", 1);
    return r ? r : lines_append(lines, &line);
}

bool changes_view_have(const void *arg, const char *path)
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

static void note_all_shown(const struct changes_view *view)
{
    for (struct walk walk = {}; json_object_size(view->unshown) > 0 && walk_next(view, &walk);) {
        note_shown(view, walk.at, true);
    }
}

void changes_text_none(const struct changes_view *view)
{
    for (struct walk walk = {}; walk_next(view, &walk);) {
        note_shown(view, walk.at, false);
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
        note_all_shown(view);
        return r ? r : buf_append(lines->out, buf_bytes(&sorted), buf_size(&sorted));
    }
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        r = append_change(lines, view, walk.at);
        note_shown(view, walk.at, lines->left_out == 0);
    }
    return r;
}

int changes_text_list(const struct changes_view *view, struct buf *out)
{
    struct lines lines = {.out = out, .begin = buf_size(out)};
    size_t unchanged = 0;
    int r = lines_append_unchanged(&lines, view->paths, changes_view_have, view, &unchanged);
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
        bool is = fn(walk.at, &space);
        *ret_count += is;
        if (is && *ret_count > NAMES_SHOWN) {
            note_shown(view, walk.at, false);
        } else if (is) {
            r = buf_append_text(&names, *ret_count > 1 ? ", " : "");
            r = r ? r : text_append_path(&names, walk.at->path);
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
    note_all_shown(view);
    size_t without = 0;
    int r = 0;
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        if (!is_too_long(walk.at, &space) && walk.at->patch_size > 0) {
            r = read(arg, walk.at->patch_at, (size_t)walk.at->patch_size, out);
        }
    }
    lines.begin = buf_size(out);
    r = r ? r : lines_append_unchanged(&lines, view->paths, changes_view_have, view, &unchanged);
    r = r ? r : append_count(out, changes_count(view->records, view->size));
    r = r ? r : append_names(out, view, "not in a patch", is_not_in_patch, &without);
    r = r ? r : append_names(out, view, "not shown, too long", is_too_long, &hidden);
    if (r == 0 && hidden > 0) {
        r = buf_appendf(out, "; the whole patch: %s", view->patch_path);
    }
    return r ? r : buf_append_text(out, "]\n");
}
