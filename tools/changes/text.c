/* Directories that were moved: what is gone below one is new below another. */

#include "tools/changes/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/text.h"
#include "tools/content/content.h"

enum { FILES_LEAST = 2, STEPS_MOST = 1000000 }; /* code chooses how many changes there are */

struct sides {
    struct change_record **gone; /* sorted by path */
    struct change_record **new;  /* the same */
    struct change_record **by_content;
    size_t gone_count;
    size_t new_count;
    size_t steps;
};

static int compare_paths(const void *one, const void *other)
{
    return strcmp((*(struct change_record *const *)one)->path,
                  (*(struct change_record *const *)other)->path);
}

static int compare_content(const void *one, const void *other)
{
    uint64_t a = (*(struct change_record *const *)one)->hash;
    uint64_t b = (*(struct change_record *const *)other)->hash;
    return a < b ? -1 : a > b;
}

static bool is_same(const struct change_record *gone, const struct change_record *new)
{
    return gone->mode == new->mode && gone->hash == new->hash &&
           (gone->hash != 0 || S_ISDIR(gone->mode));
}

static int compare_to_path(const void *path, const void *record)
{
    return strcmp(path, (*(struct change_record *const *)record)->path);
}

/* The new record of this path, or NULL. */
static struct change_record *find_new(const struct sides *sides, const char *path)
{
    struct change_record **found = bsearch(path, sides->new, sides->new_count,
                                           sizeof(struct change_record *), compare_to_path);
    return found ? *found : NULL;
}

/* How many records, from this one on, lie below a directory (size bytes of its path) and are new
 * below another; 0: not all that are gone there. marks: them, and those that they became. */
static size_t count_moved(struct sides *sides, size_t first, size_t size, const char *to,
                          bool marks)
{
    const char *from = sides->gone[first]->path;
    size_t count = 0;
    for (size_t i = first; i < sides->gone_count; i++) {
        struct change_record *gone = sides->gone[i];
        char path[LIMIT_PATH_BYTES];
        if (strncmp(gone->path, from, size) != 0 || gone->path[size] != '/') {
            break;
        }
        (void)snprintf(path, sizeof path, "%s%s", to, gone->path + size);
        struct change_record *new = sides->steps++ < STEPS_MOST ? find_new(sides, path) : NULL;
        if (!new || !is_same(gone, new)) {
            return 0;
        }
        gone->flags |= marks ? CHANGE_MOVED : 0;
        new->flags |= marks ? CHANGE_MOVED : 0;
        count++;
    }
    return count;
}

/* Writes where the directory went in which the record lay first. Returns how many went along. */
static size_t find_target(struct sides *sides, size_t first, size_t size, char to[LIMIT_PATH_BYTES])
{
    const struct change_record *gone = sides->gone[first];
    const char *rest = gone->path + size;
    size_t rest_size = strlen(rest);
    size_t at = 0;
    for (size_t end = sides->new_count; at < end;) { /* the first of its content */
        size_t middle = at + (end - at) / 2;
        bool before = sides->by_content[middle]->hash < gone->hash;
        at = before ? middle + 1 : at;
        end = before ? end : middle;
    }
    for (; gone->hash != 0 && at < sides->new_count && sides->steps++ < STEPS_MOST; at++) {
        const struct change_record *new = sides->by_content[at];
        size_t length = strlen(new->path);
        if (new->hash != gone->hash) {
            break;
        }
        if (length <= rest_size || strcmp(new->path + length - rest_size, rest) != 0) {
            continue;
        }
        (void)snprintf(to, LIMIT_PATH_BYTES, "%.*s", (int)(length - rest_size), new->path);
        size_t count = count_moved(sides, first, size, to, /* marks= */ false);
        if (count >= FILES_LEAST) {
            return count;
        }
    }
    return 0;
}

/* "docs/ -> documentation/ (31 files moved)" */
static void append_move(struct lines *lines, struct sides *sides, size_t first, size_t size,
                        const char *to)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    char from[LIMIT_PATH_BYTES];
    (void)snprintf(from, sizeof from, "%.*s", (int)size, sides->gone[first]->path);
    text_append_path(&line, from);
    buf_append_text(&line, "/ -> ");
    text_append_path(&line, to);
    buf_appendf(&line, "/ (%zu files moved)\n",
                count_moved(sides, first, size, to, /* marks= */ false));
    if (!buf_error(&line) && lines_have_space(lines, buf_size(&line))) {
        buf_append_buf(lines->out, &line);
        (void)count_moved(sides, first, size, to, /* marks= */ true);
    }
}

/* The largest directory that went as a whole and in which the record lay first. Returns how many
 * records it had. */
static size_t find_move(struct lines *lines, struct sides *sides, size_t first)
{
    const char *path = sides->gone[first]->path;
    const char *before = first > 0 ? sides->gone[first - 1]->path : "";
    char to[LIMIT_PATH_BYTES];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t size = (size_t)(slash - path);
        bool is_first = strncmp(before, path, size + 1) != 0;
        size_t count = is_first ? find_target(sides, first, size, to) : 0;
        if (count > 0) {
            append_move(lines, sides, first, size, to);
            return count;
        }
    }
    return 0;
}

/* Whether the change is applied only if a path is named. *ret: which, and why. */
static bool changes_is_refused(const struct changes_view *view, const struct change_record *record,
                               struct refused *ret)
{
    return view->rules &&
           refused_find(view->rules, record->path, record->flags & CHANGE_BARE,
                        (const char *const *)view->paths->at, view->paths->count, ret);
}

/* Appends a line for each directory that was moved as a whole, and marks its records with
 * CHANGE_MOVED. */
static int changes_text_moves(const struct changes_view *view, struct lines *lines)
{
    size_t count = changes_count(view->records, view->size);
    struct change_record **list = calloc(3 * count + 1, sizeof(struct change_record *));
    struct sides sides = {.gone = list, .new = list + count, .by_content = list + 2 * count};
    if (!list) {
        return -ENOMEM;
    }
    for (const struct change_record *at = NULL;
         (at = change_record_next(view->records, view->size, at));) {
        struct change_record *record = (void *)(uintptr_t)at;
        record->flags &= (uint8_t)~CHANGE_MOVED;
        struct refused refused;
        size_t size = 0;
        bool plain =
            (record->flags & ~CHANGE_RAW) == 0 && !changes_is_refused(view, record, &refused) &&
            changes_paths_left(view->paths, record->path, record->mode, &size) == CHANGES_LEFT_NONE;
        if (record->sign == '-') {
            sides.gone[sides.gone_count++] = record;
            record->hash = plain ? record->hash : 0;
        } else if (record->sign == '+' && plain) {
            sides.by_content[sides.new_count] = record;
            sides.new[sides.new_count++] = record;
        }
    }
    qsort(sides.gone, sides.gone_count, sizeof(struct change_record *), compare_paths);
    qsort(sides.new, sides.new_count, sizeof(struct change_record *), compare_paths);
    qsort(sides.by_content, sides.new_count, sizeof(struct change_record *), compare_content);
    for (size_t i = 0; i < sides.gone_count;) {
        size_t moved = find_move(lines, &sides, i);
        i += moved > 0 ? moved : 1;
    }
    free(list);
    return 0;
}

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
static void append_count(struct buf *out, const struct changes_view *view)
{
    size_t count = changes_count(view->records, view->size);
    if (count) {
        buf_appendf(out, "[%zu change%s", count, text_plural(count));
    } else {
        buf_append_text(out, view->paths->count ? "[no changes in these paths" : "[no changes");
    }
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
static void append_what(struct buf *out, const struct change_record *record)
{
    char human[16];
    const char *target = change_record_target(record);
    if (S_ISLNK(record->mode) && target) {
        buf_append_text(out, " symlink to ");
        text_append_path(out, target);
    } else if (!S_ISREG(record->mode)) {
        buf_append_text(out, S_ISLNK(record->mode)   ? " symlink"
                             : S_ISDIR(record->mode) ? ""
                                                     : " special file");
    } else if (record->sign == '+' || record->added == UINT32_MAX) {
        buf_appendf(out, " %s", content_size(record->bytes, human));
    } else if (record->added || record->removed) {
        buf_appendf(out, " +%u -%u", record->added, record->removed);
    }
}

static void append_facts(struct buf *out, const struct change_record *record)
{
    if (record->sign != '-') {
        append_what(out, record);
    }
    if (record->sign != '-' && change_record_shows_mode(record)) {
        buf_appendf(out, " mode %03o", record->mode & 07777);
    }
}

static void append_marks(struct buf *out, const struct changes_view *view,
                         const struct change_record *record)
{
    struct refused refused;
    uint32_t flags = record->flags;
    buf_append_text(out, flags & CHANGE_UNREADABLE ? " (not readable)" : "");
    buf_append_text(out, flags & CHANGE_INVISIBLE ? " (adds invisible characters)" : "");
    buf_append_text(out, flags & CHANGE_IN_DIR ? " (also changed by the user)" : "");
    if (changes_is_refused(view, record, &refused)) {
        char name[LIMIT_PATH_BYTES];
        (void)snprintf(name, sizeof name, "%.*s", (int)refused.size, record->path);
        buf_append_text(out, " (only if named: ");
        text_append_path(out, name);
        buf_append_text(out, ")");
    }
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

static int append_line(struct buf *out, const struct changes_view *view,
                       const struct change_record *record)
{
    buf_appendf(out, "%c ", record->sign);
    text_append_path(out, record->path);
    buf_append_text(out, S_ISDIR(record->mode) ? "/" : "");
    append_facts(out, record);
    append_marks(out, view, record);
    return buf_append(out, "\n", 1);
}

static void append_change(struct lines *lines, const struct changes_view *view,
                          const struct change_record *record)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    if (!lines_leave_out(lines)) {
        (void)append_line(&line, view, record);
        lines_append(lines, &line);
    }
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

/* Whether it has no line of its own. */
static bool is_left(const struct changes_view *view, const struct change_record *record)
{
    size_t size = 0;
    return record->flags & CHANGE_MOVED ||
           changes_paths_left(view->paths, record->path, record->mode, &size) != CHANGES_LEFT_NONE;
}

static void note_all_shown(const struct changes_view *view)
{
    for (struct walk walk = {}; walk_next(view, &walk);) {
        note_shown(view, walk.at, walk.at->flags & CHANGE_MOVED || !is_left(view, walk.at));
    }
}

/* Appends "; 90 in caches, applied only if named: .venv, src/__pycache__ and 4 more". */
static void append_left(struct buf *out, const struct changes_view *view)
{
    OWNED(buf_done) struct buf names = BUF_EMPTY;
    char last[LIMIT_PATH_BYTES] = "";
    size_t changes[3] = {};
    struct word_list list = {.out = &names, .before = "", .most = NAMES_SHOWN};
    for (const struct change_record *at = NULL;
         (at = change_record_next(view->records, view->size, at));) {
        size_t size = 0;
        enum changes_left why = changes_paths_left(view->paths, at->path, at->mode, &size);
        changes[why]++;
        if (why == CHANGES_LEFT_NONE || (strncmp(last, at->path, size) == 0 && !last[size])) {
            continue;
        }
        (void)snprintf(last, sizeof last, "%.*s", (int)size, at->path);
        if (word_list_next(&list)) {
            text_append_path(&names, last);
        }
    }
    word_list_end(&list);
    size_t cached = changes[CHANGES_LEFT_CACHE];
    size_t ignored = changes[CHANGES_LEFT_IGNORED];
    if (list.count > 0) {
        buf_appendf(out, "; %zu %s, applied only if named: ", cached + ignored,
                    text_left(cached > 0, ignored > 0));
        buf_append_buf(out, &names);
    }
}

void changes_text_none(const struct changes_view *view)
{
    for (struct walk walk = {}; walk_next(view, &walk);) {
        note_shown(view, walk.at, false);
    }
}

/* Sorted by their names where all have space. */
static void append_changes(struct lines *lines, const struct changes_view *view)
{
    OWNED(buf_done) struct buf sorted = BUF_EMPTY;
    struct lines whole = {.out = &sorted};
    for (const struct change_record *at = NULL;
         whole.left_out == 0 && (at = change_record_next(view->records, view->size, at));) {
        if (!is_left(view, at)) {
            append_change(&whole, view, at);
        }
    }
    if (whole.left_out == 0 && lines_have_space(lines, buf_size(&sorted))) {
        note_all_shown(view);
        buf_append_buf(lines->out, &sorted);
        return;
    }
    for (struct walk walk = {}; walk_next(view, &walk);) {
        bool left = is_left(view, walk.at);
        if (!left) {
            append_change(lines, view, walk.at);
        }
        note_shown(view, walk.at, walk.at->flags & CHANGE_MOVED || (!left && lines->left_out == 0));
    }
}

int changes_text_list(const struct changes_view *view, struct buf *out)
{
    struct lines lines = {.out = out, .begin = buf_size(out)};
    size_t unchanged = 0;
    lines_append_unchanged(&lines, view->paths, changes_view_have, view, &unchanged);
    int r = changes_text_moves(view, &lines);
    if (r < 0) {
        return r;
    }
    append_changes(&lines, view);
    append_count(out, view);
    append_left(out, view);
    if (lines.left_out > 0) {
        buf_appendf(out, "; %zu not listed: list one directory after the other with paths",
                    lines.left_out);
    }
    return buf_append_text(out, "]\n");
}

/* --- the patch --- */

/* Appends "; 2 not shown, too long: big.txt, data.csv" for the records that fn selects, and returns
 * how many these are. */
static size_t append_names(struct buf *out, const struct changes_view *view, const char *what,
                           bool (*fn)(const struct change_record *record, uint64_t *space))
{
    OWNED(buf_done) struct buf names = BUF_EMPTY;
    struct word_list list = {.out = &names, .before = "", .most = NAMES_SHOWN};
    uint64_t space = LIMIT_TEXT_BYTES;
    for (struct walk walk = {}; walk_next(view, &walk);) {
        bool is = !is_left(view, walk.at) && fn(walk.at, &space);
        if (is && word_list_next(&list)) {
            text_append_path(&names, walk.at->path);
        } else if (is) {
            note_shown(view, walk.at, false);
        }
    }
    word_list_end(&list);
    if (list.count > 0) {
        buf_appendf(out, "; %zu %s: ", list.count, what);
        buf_append_buf(out, &names);
    }
    return list.count;
}

static bool is_raw(const struct change_record *record, uint64_t *)
{
    return record->flags & CHANGE_RAW;
}

/* Whether the file's part of the patch has no space; else takes it. */
static bool is_too_long(const struct change_record *record, uint64_t *space)
{
    if (record->flags & CHANGE_RAW) {
        return false;
    }
    bool fits = record->patch_size <= *space;
    *space -= fits ? record->patch_size : 0;
    return !fits;
}

static bool is_not_in_patch(const struct change_record *record, uint64_t *)
{
    return record->patch_size == 0;
}

static bool is_also_the_users(const struct change_record *record, uint64_t *)
{
    return record->flags & CHANGE_IN_DIR;
}

int changes_text_patch(const struct changes_view *view, changes_patch_fn read, void *arg,
                       struct buf *out)
{
    struct lines lines = {.out = out, .begin = buf_size(out)};
    uint64_t space = LIMIT_TEXT_BYTES;
    size_t unchanged = 0;
    int r = 0;
    note_all_shown(view);
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        bool is_text = !is_left(view, walk.at) && !(walk.at->flags & CHANGE_RAW);
        if (is_text && !is_too_long(walk.at, &space) && walk.at->patch_size > 0) {
            r = read(arg, walk.at->patch_at, (size_t)walk.at->patch_size, out);
        }
    }
    lines.begin = buf_size(out);
    lines_append_unchanged(&lines, view->paths, changes_view_have, view, &unchanged);
    append_count(out, view);
    append_left(out, view);
    append_names(out, view, "also changed by the user, which the patch would take back",
                 is_also_the_users);
    append_names(out, view, "not in a patch", is_not_in_patch);
    size_t hidden = append_names(out, view, "not shown, as it is not UTF-8", is_raw);
    if (append_names(out, view, "not shown, too long", is_too_long) + hidden > 0) {
        buf_appendf(out, "; the whole patch: %s", view->patch_path);
    }
    return buf_append_text(out, "]\n");
}

/* --- for people --- */

/* Under way: what is not yet in a part. */
struct parts {
    json_t *done;
    json_t *files; /* of the next one */
    size_t size;   /* of these */
    size_t left;   /* bytes that all parts may still take */
};

static int append_file(struct parts *parts, const char *line, size_t line_size, const char *patch,
                       size_t patch_size)
{
    size_t size = line_size + patch_size;
    parts->size += size;
    parts->left -= size < parts->left ? size : parts->left;
    return json_array_append_new(
        parts->files, json_pack("[o, o]", rpc_text(line, line_size), rpc_text(patch, patch_size)));
}

static int end_part(struct parts *parts)
{
    json_t *files = parts->files;
    parts->files = json_array();
    parts->size = 0;
    return json_array_append_new(parts->done, json_pack("{s:o}", "changes", files));
}

/* A file that does not fit begins a part, and a longer one has the rest of its patch in the next,
 * after an empty line. */
static int add_file(struct parts *parts, const struct buf *line, struct buf *patch)
{
    bool fits = parts->size + buf_size(line) + buf_size(patch) <= LIMIT_VIEW_BYTES;
    int r = !fits && parts->size > 0 ? end_part(parts) : 0;
    size_t line_size = buf_size(line);
    while (r == 0 && line_size + buf_size(patch) > LIMIT_VIEW_BYTES) {
        size_t size = LIMIT_VIEW_BYTES - line_size;
        while (size < buf_size(patch) && utf8_is_inner(buf_bytes(patch)[size]) &&
               size > LIMIT_VIEW_BYTES / 2) {
            size--;
        }
        r = append_file(parts, buf_bytes(line), line_size, buf_bytes(patch), size);
        r = r ? r : end_part(parts);
        buf_consume(patch, size);
        line_size = 0;
    }
    return r ? r
             : append_file(parts, buf_bytes(line), line_size, buf_bytes(patch), buf_size(patch));
}

/* Its part of the patch, or why it is not here. */
static int read_file_patch(const struct changes_view *view, const struct parts *parts,
                           const struct change_record *record, changes_patch_fn read, void *arg,
                           struct buf *out)
{
    enum { LINES_SHARE = 4 }; /* of the space, for lines alone */
    char human[16];
    bool alone = changes_count(view->records, view->size) == 1;
    size_t most = alone ? LIMIT_REVIEW_BYTES : LIMIT_REVIEW_FILE_BYTES;
    size_t space = parts->left > LIMIT_REVIEW_BYTES / LINES_SHARE
                       ? parts->left - LIMIT_REVIEW_BYTES / LINES_SHARE
                       : 0;
    if (record->patch_size == 0) {
        return 0;
    }
    if (record->patch_size <= most && record->patch_size <= space) {
        return read(arg, record->patch_at, (size_t)record->patch_size, out);
    }
    return buf_appendf(out, "# : %s of lines are not shown here%s\n",
                       content_size(record->patch_size, human),
                       alone ? "" : ", but where this file is listed alone");
}

/* How the list ends. */
static json_t *end_text(const struct changes_view *view, size_t left_out)
{
    OWNED(buf_done) struct buf end = BUF_EMPTY;
    append_count(&end, view);
    append_left(&end, view);
    if (left_out > 0) {
        buf_appendf(&end, "; %zu not listed: list one directory after the other", left_out);
    }
    return buf_append_text(&end, "]") < 0 ? NULL : rpc_text(buf_bytes(&end), buf_size(&end));
}

json_t *changes_text_parts(const struct changes_view *view, changes_patch_fn read, void *arg)
{
    struct parts parts = {.done = json_array(), .files = json_array(), .left = LIMIT_REVIEW_BYTES};
    size_t left_out = 0;
    int r = 0;
    for (struct walk walk = {}; r == 0 && walk_next(view, &walk);) {
        OWNED(buf_done) struct buf line = BUF_EMPTY;
        OWNED(buf_done) struct buf patch = BUF_EMPTY;
        if (is_left(view, walk.at) && !(walk.at->flags & CHANGE_MOVED)) {
            continue;
        }
        r = append_line(&line, view, walk.at);
        if (left_out > 0 || buf_size(&line) > parts.left) {
            left_out++;
            continue;
        }
        r = r ? r : read_file_patch(view, &parts, walk.at, read, arg, &patch);
        r = r ? r : add_file(&parts, &line, &patch);
    }
    r = r ? r : end_part(&parts);
    json_t *first = json_array_get(parts.done, 0);
    r = r ? r : json_object_set_new(first, "end", end_text(view, left_out));
    json_decref(parts.files);
    if (r < 0) {
        json_decref(parts.done);
        return NULL;
    }
    return parts.done;
}
