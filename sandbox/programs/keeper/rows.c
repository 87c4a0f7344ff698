/* The files that a call has changed, as its status line names them: none below hidden directories
 * except that there is a new one, and many new files of one directory as one row. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/path.h"
#include "sandbox/programs/keeper/edits.h"
#include "sandbox/programs/keeper/keeper.h"

enum { LISTED = 8 }; /* new files of one directory; more are summed up */

struct row {
    char *path;
    char sign;
    bool is_new_file;
    bool doubt;
    enum kind kind;
    unsigned links;
    uint64_t bytes;
};

/* The size of the part of path that names its first hidden directory; 0: there is none. */
static size_t hidden_size(const char *path)
{
    static const char *const hidden[] = {"__pycache__", "node_modules"};
    size_t at = 0;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(path + at, '/')) {
        size_t size = (size_t)(slash - path) - at;
        for (unsigned i = 0; i < 2; i++) {
            if (size == strlen(hidden[i]) && memcmp(path + at, hidden[i], size) == 0) {
                return at + size;
            }
        }
        if (path[at] == '.') {
            return at + size;
        }
        at += size + 1;
    }
    return 0;
}

void rows_add(struct rows *rows, const struct record *record, const struct version *from,
              enum row_kind kind)
{
    const struct version *to = record->now;
    bool hidden_directory = path_last(record->path)[0] == '.' &&
                            ((to->kind == KIND_DIRECTORY && from->kind == KIND_NONE) ||
                             (to->kind == KIND_NONE && from->kind == KIND_DIRECTORY));
    hidden_directory = hidden_directory || kind == ROW_MOVED;
    bool directory = (to->kind == KIND_DIRECTORY || to->kind == KIND_NONE) &&
                     (from->kind == KIND_DIRECTORY || from->kind == KIND_NONE);
    if (hidden_size(record->path) || (directory && !hidden_directory)) {
        return;
    }
    struct row row = {
        .path = strdup(record->path),
        .sign = from->kind == KIND_NONE ? '+'
                : to->kind == KIND_NONE ? '-'
                                        : '~',
        .is_new_file = from->kind == KIND_NONE && to->kind == KIND_FILE && record->links < 2,
        .kind = hidden_directory ? KIND_DIRECTORY : to->kind,
        .links = record->links,
        .doubt = kind == ROW_DOUBTED,
        .bytes = to->bytes,
    };
    if (!row.path || !array_add(rows, row)) {
        free(row.path);
    }
}

static int compare_rows(const void *one, const void *other)
{
    const struct row *a = one;
    const struct row *b = other;
    return strcmp(a->path, b->path);
}

static size_t directory_size(const struct row *row)
{
    const char *slash = strrchr(row->path, '/');
    return slash ? (size_t)(slash - row->path) : 0;
}

static bool is_beside(const struct row *one, const struct row *other)
{
    size_t size = directory_size(one);
    return one->is_new_file && other->is_new_file && directory_size(other) == size &&
           memcmp(one->path, other->path, size) == 0;
}

/* Appends one row: an item of three texts. */
static void append_row(struct buf *text, const struct row *row, uint64_t bytes, unsigned files)
{
    const char *kind = row->doubt                    ? "may be the user's"
                       : row->kind == KIND_LINK      ? "symlink"
                       : row->kind == KIND_DIRECTORY ? "directory"
                       : row->links > 1              ? "hard link"
                                                     : "";
    char number[32];
    int size = (int)(files ? directory_size(row) : strlen(row->path));
    const char *path = files && size == 0 ? "." : row->path;
    (void)buf_appendf(text, "%c%c%.*s%s", WIRE_KEPT_ROW, row->sign, files && size == 0 ? 1 : size,
                      path, files || row->kind == KIND_DIRECTORY ? "/" : "");
    (void)buf_append(text, "", 1);
    (void)buf_appendf(text, "%llu", (unsigned long long)bytes);
    (void)buf_append(text, "", 1);
    (void)snprintf(number, sizeof number, "%u files", files);
    (void)buf_append(text, files ? number : kind, strlen(files ? number : kind) + 1);
}

uint32_t rows_tell(struct rows *rows, struct buf *text)
{
    uint32_t shown_rows = 0;
    uint32_t more = 0;
    if (rows->count > 0) {
        qsort(rows->list, rows->count, sizeof(struct row), compare_rows);
    }
    for (size_t i = 0; i < rows->count; i++) {
        struct row *row = &rows->list[i];
        uint64_t bytes = 0;
        unsigned files = 0;
        if (shown_rows == KEEPER_ROWS) { /* each is compared with all after it: only so many are */
            more += row->sign != '\0';
            continue;
        }
        for (size_t k = i; row->is_new_file && k < rows->count; k++) {
            bool beside = is_beside(row, &rows->list[k]);
            bytes += beside ? rows->list[k].bytes : 0;
            files += beside;
        }
        bool summed = files > LISTED;
        if (row->sign) {
            append_row(text, row, summed ? bytes : row->bytes, summed ? files : 0);
            shown_rows++;
        }
        for (size_t k = i + 1; summed && k < rows->count; k++) {
            if (is_beside(row, &rows->list[k])) { /* its directory has a row */
                rows->list[k].is_new_file = false;
                rows->list[k].sign = '\0';
            }
        }
    }
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->list[i].path);
    }
    free(rows->list);
    return more;
}

/* What a call has made of one path, by all its edits. */
struct outcome {
    char *path;
    size_t order;
    const struct version *from;
    struct version *to;
    unsigned links;
    bool moved; /* a directory */
    bool rewritten;
};

struct outcomes {
    struct outcome *list;
    size_t count;
    size_t space;
};

static void outcome_add(struct outcomes *outcomes, const char *path, const struct version *from,
                        struct version *to, const struct edit *edit)
{
    struct outcome outcome = {.path = strdup(path),
                              .order = outcomes->count,
                              .from = from,
                              .to = to,
                              .links = edit->links,
                              .moved = edit->moves && edit->to->kind == KIND_DIRECTORY,
                              .rewritten = edit->rewritten};
    if (!outcome.path || !array_add(outcomes, outcome)) {
        free(outcome.path);
    }
}

/* What the call has made in a directory is where that is now. */
static void outcomes_move(struct outcomes *outcomes, const char *from, const char *to)
{
    for (size_t i = 0; i < outcomes->count; i++) {
        char *path = NULL;
        if (apply_path_is_below(outcomes->list[i].path, from) &&
            asprintf(&path, "%s%s", to, outcomes->list[i].path + strlen(from)) >= 0) {
            free(outcomes->list[i].path);
            outcomes->list[i].path = path;
        }
    }
}

static int compare_outcomes(const void *one, const void *other)
{
    const struct outcome *a = one;
    const struct outcome *b = other;
    int order = strcmp(a->path, b->path);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static void add_edit(struct outcomes *outcomes, const struct edit *edit)
{
    if (!edit->moves) {
        outcome_add(outcomes, edit->path, edit->from, edit->to, edit);
        return;
    }
    if (edit->to->kind == KIND_DIRECTORY) {
        outcomes_move(outcomes, edit->path, edit->target);
    }
    outcome_add(outcomes, edit->path, edit->to, edits_none(), edit);
    outcome_add(outcomes, edit->target, edit->from, edit->to, edit);
}

void edits_rows(const struct edits *edits, struct rows *rows)
{
    struct outcomes outcomes = {};
    for (size_t i = 0; i < edits->count; i++) {
        add_edit(&outcomes, edits->list[i]);
    }
    if (outcomes.count > 0) {
        qsort(outcomes.list, outcomes.count, sizeof *outcomes.list, compare_outcomes);
    }
    for (size_t i = 0; i < outcomes.count; i++) {
        struct outcome *first = &outcomes.list[i];
        for (; i + 1 < outcomes.count && strcmp(outcomes.list[i + 1].path, first->path) == 0; i++) {
            first->to = outcomes.list[i + 1].to;
            first->moved = first->moved || outcomes.list[i + 1].moved;
            first->rewritten = first->rewritten || outcomes.list[i + 1].rewritten;
        }
        struct record record = {.path = first->path, .now = first->to, .links = first->links};
        /* What code has open may be what it was. */
        if (first->rewritten || (version_differs(first->from, first->to) &&
                                 !apply_facts_alike(&first->from->facts, &first->to->facts))) {
            rows_add(rows, &record, first->from, first->moved ? ROW_MOVED : ROW_SURE);
        }
    }
    for (size_t i = 0; i < outcomes.count; i++) {
        free(outcomes.list[i].path);
    }
    free(outcomes.list);
}
