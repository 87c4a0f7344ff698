#include "sandbox/programs/keeper/patch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/word.h"

/* --- which lines differ: see patch.h --- */

enum { OLD, NEW, SIDES };

#define NONE UINT32_MAX
#define UNREACHED INT32_MIN

/* One text between what is equal. */
struct side {
    const char *bytes;
    size_t begin; /* byte of the first line */
    size_t first; /* lines before it */
    uint32_t count;
    uint32_t *at;     /* count + 1: where each line begins */
    uint32_t *class;  /* equal lines have the same, on both sides */
    bool *changed;    /* count + 1, the last one false */
    uint32_t *common; /* the lines that the other side has too */
    uint32_t common_count;
};

struct state {
    struct side sides[SIDES];
    uint64_t *work;
    uint32_t *memory;
    uint32_t *first; /* of each class: a line of the old side, then of the new one */
    /* Myers' V of both directions: the line of the old side that each diagonal has reached. */
    int32_t *reach[2];
};

/* A rectangle of common lines that is still to be compared. */
struct area {
    int32_t old_begin;
    int32_t old_end;
    int32_t new_begin;
    int32_t new_end;
};

static bool spend(struct state *state, uint64_t steps)
{
    bool enough = *state->work >= steps;
    *state->work -= enough ? steps : *state->work;
    return enough;
}

/* --- lines --- */

static size_t count_lines(const char *bytes, size_t size)
{
    size_t count = 0;
    for (size_t at = 0; at < size; count++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        at = end ? (size_t)(end - bytes) + 1 : size;
    }
    return count;
}

/* Bytes of whole lines that both texts begin with. */
static size_t common_begin(struct diff_text old, struct diff_text new)
{
    size_t size = old.size < new.size ? old.size : new.size;
    size_t same = 0;
    while (same + 4096 <= size && memcmp(old.bytes + same, new.bytes + same, 4096) == 0) {
        same += 4096;
    }
    while (same < size && old.bytes[same] == new.bytes[same]) {
        same++;
    }
    bool is_line = same == 0 || (same == old.size && same == new.size);
    const char *end = is_line ? NULL : memrchr(old.bytes, '\n', same);
    return is_line ? same : end ? (size_t)(end - old.bytes) + 1 : 0;
}

/* Bytes of whole lines that both end with, behind those. */
static size_t common_end(struct diff_text old, struct diff_text new, size_t begin)
{
    size_t most = (old.size < new.size ? old.size : new.size) - begin;
    const char *old_end = old.bytes + old.size;
    const char *new_end = new.bytes + new.size;
    size_t same = 0;
    while (same < most && old_end[-1 - (ptrdiff_t)same] == new_end[-1 - (ptrdiff_t)same]) {
        same++;
    }
    /* The first of them is whole where a line ends before it in both texts. */
    bool is_line = same == most &&
                   (old.size - same == 0 || old_end[-1 - (ptrdiff_t)same] == '\n') &&
                   (new.size - same == 0 || new_end[-1 - (ptrdiff_t)same] == '\n');
    const char *line = is_line || same == 0 ? NULL : memchr(old_end - same, '\n', same);
    return is_line ? same : line ? (size_t)(old_end - line) - 1 : 0;
}

static size_t line_size(const struct side *side, uint32_t line)
{
    return side->at[line + 1] - side->at[line];
}

/* The class of a line; first of each class: in the table, by their hashes. NONE: no work is left,
 * as with lines that were made to have the same hash. */
static uint32_t find_class(struct state *state, uint32_t *table, uint32_t mask, unsigned which,
                           uint32_t line, uint32_t *classes)
{
    const struct side *side = &state->sides[which];
    const char *bytes = side->bytes + side->begin + side->at[line];
    size_t size = line_size(side, line);
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211ULL;
    }
    uint32_t slot = (uint32_t)(hash ^ hash >> 32) & mask;
    for (; table[slot] != NONE; slot = (slot + 1) & mask) {
        uint32_t known = state->first[table[slot]];
        bool is_old = known < state->sides[OLD].count;
        const struct side *other = &state->sides[is_old ? OLD : NEW];
        known -= is_old ? 0 : state->sides[OLD].count;
        bool same_size = line_size(other, known) == size;
        if (!spend(state, 1 + (same_size ? size / 16 : 0))) {
            return NONE;
        }
        if (same_size && memcmp(other->bytes + other->begin + other->at[known], bytes, size) == 0) {
            return table[slot];
        }
    }
    table[slot] = *classes;
    state->first[*classes] = line + (which == NEW ? state->sides[OLD].count : 0);
    return (*classes)++;
}

/* Finds where lines begin and which are equal. False: no work is left. */
static bool classify(struct state *state, uint32_t *table, uint32_t mask, size_t ends[SIDES])
{
    uint32_t classes = 0;
    memset(table, 0xff, ((size_t)mask + 1) * sizeof *table);
    for (unsigned which = 0; which < SIDES; which++) {
        struct side *side = &state->sides[which];
        size_t size = ends[which] - side->begin;
        size_t at = 0;
        for (uint32_t i = 0; i < side->count; i++) {
            side->at[i] = (uint32_t)at;
            const char *bytes = side->bytes + side->begin;
            const char *end = memchr(bytes + at, '\n', size - at);
            at = end ? (size_t)(end - bytes) + 1 : size;
        }
        side->at[side->count] = (uint32_t)size;
        if (!spend(state, size / 4)) {
            return false;
        }
        for (uint32_t i = 0; i < side->count; i++) {
            side->class[i] = find_class(state, table, mask, which, i, &classes);
            if (side->class[i] == NONE) {
                return false;
            }
        }
    }
    return true;
}

/* Lines that only one side has are changed, whatever the others are. has: bits of the sides, by
 * class. */
static void sort_out(struct state *state, uint32_t *has)
{
    memset(has, 0, ((size_t)state->sides[OLD].count + state->sides[NEW].count) * sizeof *has);
    for (unsigned which = 0; which < SIDES; which++) {
        for (uint32_t i = 0; i < state->sides[which].count; i++) {
            has[state->sides[which].class[i]] |= 1U << which;
        }
    }
    for (unsigned which = 0; which < SIDES; which++) {
        struct side *side = &state->sides[which];
        for (uint32_t i = 0; i < side->count; i++) {
            side->changed[i] = has[side->class[i]] != 3;
            if (!side->changed[i]) {
                side->common[side->common_count++] = i;
            }
        }
    }
}

/* --- Myers --- */

static uint32_t class_of(const struct side *side, int32_t common)
{
    return side->class[side->common[common]];
}

static bool has_same_class(const struct state *state, int32_t old, int32_t new)
{
    return class_of(&state->sides[OLD], old) == class_of(&state->sides[NEW], new);
}

static void mark(struct side *side, int32_t begin, int32_t end)
{
    for (int32_t i = begin; i < end; i++) {
        side->changed[side->common[i]] = true;
    }
}

/* One step of the search from the beginning of the area, or backward from its end: how far d
 * differences lead on each diagonal, old line - new line = k. True: the two ways meet, at *ret_old
 * and *ret_new. */
static bool search(struct state *state, const struct area *area, bool back, int32_t d,
                   int32_t *ret_old, int32_t *ret_new)
{
    int32_t s = back ? -1 : 1;
    int32_t *reach = state->reach[back];
    const int32_t *other = state->reach[!back];
    int32_t start = area->old_begin - area->new_begin;
    int32_t end = area->old_end - area->new_end;
    int32_t middle = back ? end : start;
    int32_t other_middle = back ? start : end;
    int32_t other_d = back ? d : d - 1;
    int32_t low = area->old_begin - area->new_end;
    int32_t high = area->old_end - area->new_begin;
    int32_t old_limit = back ? area->old_begin : area->old_end;
    int32_t new_limit = back ? area->new_begin : area->new_end;
    bool may_meet = ((start - end) & 1) != back;
    int32_t first = middle - d < low ? low + ((low - middle + d) & 1) : middle - d;
    if (middle - d > low) {
        reach[middle - d - 1] = UNREACHED;
    }
    if (middle + d < high) {
        reach[middle + d + 1] = UNREACHED;
    }
    for (int32_t k = first; k <= middle + d && k <= high; k += 2) {
        int32_t near = k - s < low || k - s > high ? UNREACHED : reach[k - s];
        int32_t far = k + s < low || k + s > high ? UNREACHED : reach[k + s];
        int32_t old = reach[k];
        if (near != UNREACHED && near != old_limit &&
            (old == UNREACHED || s * (near + s - old) > 0)) {
            old = near + s;
        }
        if (far != UNREACHED && s * (new_limit - far + k) >= 0 &&
            (old == UNREACHED || s * (far - old) > 0)) {
            old = far;
        }
        int32_t from = old;
        while (old != UNREACHED && old != old_limit && old - k != new_limit &&
               has_same_class(state, old - back, old - k - back)) {
            old += s;
        }
        reach[k] = old;
        (void)spend(state, 1 + (uint64_t)(old > from ? old - from : from - old));
        if (may_meet && old != UNREACHED && k >= other_middle - other_d &&
            k <= other_middle + other_d && other[k] != UNREACHED && s * (old - other[k]) >= 0) {
            *ret_old = old;
            *ret_new = old - k;
            return true;
        }
    }
    return false;
}

/* Finds a point on a shortest way through the area, which has no equal lines at its corners: both
 * ends search by turns until their ways meet. False: no work is left. */
static bool find_middle(struct state *state, const struct area *area, int32_t *ret_old,
                        int32_t *ret_new)
{
    int32_t start = area->old_begin - area->new_begin;
    int32_t end = area->old_end - area->new_end;
    for (unsigned i = 0; i < 3; i++) {
        state->reach[0][start - 1 + (int32_t)i] = UNREACHED;
        state->reach[1][end - 1 + (int32_t)i] = UNREACHED;
    }
    state->reach[0][start] = area->old_begin;
    state->reach[1][end] = area->old_end;
    for (int32_t d = 1; *state->work > 0; d++) {
        if (search(state, area, /* back= */ false, d, ret_old, ret_new) ||
            search(state, area, /* back= */ true, d, ret_old, ret_new)) {
            return true;
        }
    }
    return false;
}

/* Each half has at most half of the differences: the depth is their logarithm. */
static void compare(struct state *state, struct area area)
{
    while (area.old_begin < area.old_end && area.new_begin < area.new_end &&
           has_same_class(state, area.old_begin, area.new_begin)) {
        area.old_begin++;
        area.new_begin++;
    }
    while (area.old_begin < area.old_end && area.new_begin < area.new_end &&
           has_same_class(state, area.old_end - 1, area.new_end - 1)) {
        area.old_end--;
        area.new_end--;
    }
    int32_t old = 0;
    int32_t new = 0;
    if (area.old_begin < area.old_end && area.new_begin < area.new_end &&
        find_middle(state, &area, &old, &new)) {
        compare(state, (struct area){area.old_begin, old, area.new_begin, new});
        compare(state, (struct area){old, area.old_end, new, area.new_end});
    } else {
        mark(&state->sides[OLD], area.old_begin, area.old_end);
        mark(&state->sides[NEW], area.new_begin, area.new_end);
    }
}

/* --- edits --- */

static int add_edit(struct diff *diff, const struct diff_edit *edit)
{
    diff->removed += edit->old_lines;
    diff->added += edit->new_lines;
    diff->count++;
    return buf_append(&diff->edits, edit, sizeof *edit);
}

static int collect(const struct state *state, struct diff *diff)
{
    const struct side *old = &state->sides[OLD];
    const struct side *new = &state->sides[NEW];
    uint32_t i = 0;
    uint32_t j = 0;
    int r = 0;
    while (r == 0 && (i < old->count || j < new->count)) {
        uint32_t old_end = i;
        uint32_t new_end = j;
        while (old->changed[old_end]) {
            old_end++;
        }
        while (new->changed[new_end]) {
            new_end++;
        }
        if (old_end > i || new_end > j) {
            r = add_edit(diff, &(struct diff_edit){.old_at = old->begin + old->at[i],
                                                   .old_size = old->at[old_end] - old->at[i],
                                                   .new_at = new->begin + new->at[j],
                                                   .new_size = new->at[new_end] - new->at[j],
                                                   .old_line = old->first + i,
                                                   .old_lines = old_end - i,
                                                   .new_line = new->first + j,
                                                   .new_lines = new_end - j});
        }
        i = old_end + 1;
        j = new_end + 1;
    }
    return r;
}

/* Shares out one piece of memory, which must be zeroed. 0 or -ENOMEM. */
static int allocate(struct state *state, uint32_t **ret_table, uint32_t *ret_mask)
{
    size_t lines = (size_t)state->sides[OLD].count + state->sides[NEW].count;
    size_t slots = 64;
    while (slots < 2 * lines) {
        slots *= 2;
    }
    /* at, class, common and changed of each side; first; reach for two times lines + 3 diagonals */
    state->memory = calloc(slots + 7 * (lines + 4), sizeof(uint32_t));
    if (!state->memory) {
        return -ENOMEM;
    }
    uint32_t *at = state->memory + slots;
    for (unsigned which = 0; which < SIDES; which++) {
        struct side *side = &state->sides[which];
        side->at = at;
        side->class = side->at + side->count + 1;
        side->common = side->class + side->count;
        side->changed = (bool *)(side->common + side->count);
        at = side->common + side->count + side->count / sizeof(uint32_t) + 1;
    }
    state->first = at;
    for (unsigned i = 0; i < 2; i++) {
        state->reach[i] = (int32_t *)(at + lines + i * (lines + 3)) + state->sides[NEW].count + 1;
    }
    *ret_table = state->memory;
    *ret_mask = (uint32_t)slots - 1;
    return 0;
}

int diff_lines(struct diff_text old, struct diff_text new, uint64_t *work, struct diff *ret)
{
    *ret = (struct diff){};
    size_t begin = common_begin(old, new);
    size_t end = common_end(old, new, begin);
    size_t ends[SIDES] = {old.size - end, new.size - end};
    size_t first = count_lines(old.bytes, begin);
    struct diff_edit whole = {.old_at = begin,
                              .old_size = ends[OLD] - begin,
                              .new_at = begin,
                              .new_size = ends[NEW] - begin,
                              .old_line = first,
                              .new_line = first};
    whole.old_lines = count_lines(old.bytes + begin, whole.old_size);
    whole.new_lines = count_lines(new.bytes + begin, whole.new_size);
    if (whole.old_size == 0 || whole.new_size == 0 || whole.old_size > UINT32_MAX ||
        whole.new_size > UINT32_MAX || whole.old_lines + whole.new_lines > DIFF_LINES) {
        return whole.old_size + whole.new_size == 0 ? 0 : add_edit(ret, &whole);
    }
    struct state state = {
        .sides = {{.bytes = old.bytes,
                   .begin = begin,
                   .first = first,
                   .count = (uint32_t)whole.old_lines},
                  {.bytes = new.bytes,
                   .begin = begin,
                   .first = first,
                   .count = (uint32_t)whole.new_lines}},
        .work = work,
    };
    uint32_t *table = NULL;
    uint32_t mask = 0;
    int r = allocate(&state, &table, &mask);
    if (r == 0 && classify(&state, table, mask, ends)) {
        sort_out(&state, table);
        compare(&state, (struct area){0, (int32_t)state.sides[OLD].common_count, 0,
                                      (int32_t)state.sides[NEW].common_count});
        r = collect(&state, ret);
    } else if (r == 0) {
        r = add_edit(ret, &whole);
    }
    free(state.memory);
    return r;
}

void diff_done(struct diff *diff)
{
    buf_done(&diff->edits);
}

/* --- the patch --- */

enum {
    CONTEXT = 3,
    BINARY_BYTES = 8000, /* git's buffer_is_binary() searches as many for a NUL */
};

static const struct patch_file none = {.bytes = ""};

/* What git knows of a mode; 0: nothing, as of a directory or a device. */
static unsigned git_mode(uint32_t mode)
{
    return S_ISLNK(mode) ? 0120000 : !S_ISREG(mode) ? 0 : mode & S_IXUSR ? 0100755 : 0100644;
}

/* Whether the first component of path is this name, as NTFS spells it too. */
static bool begins_with(const char *path, const char *name)
{
    size_t size = strlen(name);
    if (strncasecmp(path, name, size) != 0) {
        return false;
    }
    const char *end = path + size + strspn(path + size, " .");
    return !*end || strchr("/\\:", *end);
}

/* Whether git apply refuses a patch with this name, and with it the whole patch: verify_path() in
 * git's read-cache.c. */
static bool git_refuses(const char *path)
{
    for (const char *at = path; at; at = strpbrk(at, "/\\")) {
        at += at > path;
        if (begins_with(at, ".git") || begins_with(at, "git~1")) {
            return true;
        }
    }
    return false;
}

static bool is_read(const struct patch_file *file)
{
    return file->bytes && file->size <= PATCH_FILE_BYTES;
}

static bool is_binary(const struct patch_file *file)
{
    size_t size = file->size < BINARY_BYTES ? (size_t)file->size : BINARY_BYTES;
    return S_ISREG(file->mode) && is_read(file) && memchr(file->bytes, '\0', size);
}

static bool is_same(const struct patch_file *old, const struct patch_file *new)
{
    return is_read(old) && is_read(new) && old->size == new->size &&
           (old->size == 0 || memcmp(old->bytes, new->bytes, (size_t)old->size) == 0);
}

/* --- what a reader does not see --- */

/* Spaces, and what makes a picture of the character before it, are ordinary in texts. */
static bool is_ordinary(uint32_t code)
{
    return code == '\t' || code == '\n' || code == '\f' || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x202f || code == 0x205f ||
           code == 0x3000 || code == 0xfe0f;
}

static bool has_invisible(const char *text, size_t size, bool is_start)
{
    enum { BYTE_ORDER_MARK = 0xfeff };
    for (size_t at = 0; at < size;) {
        int length = utf8_size(text + at, size - at);
        uint32_t code = length > 0 ? utf8_code(text + at, length) : 'x';
        bool ends_line = code == '\r' && at + 1 < size && text[at + 1] == '\n';
        bool marks = is_start && at == 0 && code == BYTE_ORDER_MARK;
        if (word_is_unseen(code) && !is_ordinary(code) && !ends_line && !marks) {
            return true;
        }
        at += length > 0 ? (size_t)length : 1;
    }
    return false;
}

static bool adds_invisible(const struct diff *diff, struct diff_text new)
{
    for (size_t i = 0; i < diff->count; i++) {
        const struct diff_edit *edit = diff_edit(diff, i);
        if (has_invisible(new.bytes + edit->new_at, edit->new_size, edit->new_at == 0)) {
            return true;
        }
    }
    return false;
}

/* --- comments --- */

static const char *size_text(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    unsigned unit = 0;
    uint64_t tenths = bytes < UINT64_MAX / 10 ? bytes * 10 : bytes;
    while (tenths >= 10000 && unit < 4) {
        tenths /= 1000;
        unit++;
    }
    (void)snprintf(out, 24, "%llu %s", (unsigned long long)tenths / 10, units[unit]);
    return out;
}

/* "# out.png: binary, 18 kB, not in this patch": git apply skips lines between files. */
static int comment(const char *path, const struct patch_file *old, const struct patch_file *new,
                   struct buf *out)
{
    char size[24];
    const struct patch_file *file = new->mode ? new : old;
    bool odd = (old->mode && !git_mode(old->mode)) || (new->mode && !git_mode(new->mode));
    const char *kind = odd                              ? "no regular file"
                       : !is_read(old) || !is_read(new) ? "too large for a diff"
                       : git_refuses(path)              ? "git apply refuses this path"
                                                        : "binary";
    (void)buf_append_text(out, "# ");
    (void)quote_append(out, "", path, strlen(path), /* force= */ false);
    return buf_appendf(out, ": %s, %s, not in this patch\n", kind,
                       new->mode ? size_text(file->size, size) : "deleted");
}

/* --- hunks --- */

/* A place between two lines of a text. */
struct place {
    size_t at;
    size_t line;
};

static struct place back(const char *bytes, struct place place, size_t least)
{
    for (unsigned i = 0; i < CONTEXT && place.at > least; i++) {
        const char *end = memrchr(bytes, '\n', place.at - 1);
        place.at = end && (size_t)(end - bytes) + 1 > least ? (size_t)(end - bytes) + 1 : least;
        place.line--;
    }
    return place;
}

static struct place ahead(const char *bytes, struct place place, size_t most)
{
    for (unsigned i = 0; i < CONTEXT && place.at < most; i++) {
        const char *end = memchr(bytes + place.at, '\n', most - place.at);
        place.at = end ? (size_t)(end - bytes) + 1 : most;
        place.line++;
    }
    return place;
}

static void append_lines(struct buf *out, char sign, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) + 1 - at : size - at;
        (void)buf_append(out, &sign, 1);
        (void)buf_append(out, bytes + at, length);
        (void)buf_append_text(out, end ? "" : "\n\\ No newline at end of file\n");
        at += length;
    }
}

static void append_range(struct buf *out, const char *sign, size_t line, size_t lines)
{
    (void)buf_appendf(out, "%s%zu", sign, lines ? line + 1 : line);
    if (lines != 1) {
        (void)buf_appendf(out, ",%zu", lines);
    }
}

/* Appends the hunk of the edits from first to last. */
static void append_hunk(struct buf *out, const struct diff *diff, size_t first, size_t last,
                        struct diff_text old, struct diff_text new)
{
    const struct diff_edit *edit = diff_edit(diff, first);
    const struct diff_edit *end = diff_edit(diff, last);
    struct place from = back(old.bytes, (struct place){edit->old_at, edit->old_line}, 0);
    struct place old_end = {end->old_at + end->old_size, end->old_line + end->old_lines};
    struct place to = ahead(old.bytes, old_end, old.size);
    size_t new_line = edit->new_line - (edit->old_line - from.line);
    size_t new_end = end->new_line + end->new_lines + (to.line - old_end.line);
    append_range(out, "@@ -", from.line, to.line - from.line);
    append_range(out, " +", new_line, new_end - new_line);
    (void)buf_append_text(out, " @@\n");
    size_t at = from.at;
    for (size_t i = first; i <= last; i++) {
        edit = diff_edit(diff, i);
        append_lines(out, ' ', old.bytes + at, edit->old_at - at);
        append_lines(out, '-', old.bytes + edit->old_at, edit->old_size);
        append_lines(out, '+', new.bytes + edit->new_at, edit->new_size);
        at = edit->old_at + edit->old_size;
    }
    append_lines(out, ' ', old.bytes + at, to.at - at);
}

static void append_hunks(struct buf *out, const struct diff *diff, struct diff_text old,
                         struct diff_text new)
{
    for (size_t first = 0; first < diff->count;) {
        size_t last = first;
        while (last + 1 < diff->count && diff_edit(diff, last + 1)->old_line -
                                                 diff_edit(diff, last)->old_line -
                                                 diff_edit(diff, last)->old_lines <=
                                             2UL * CONTEXT) {
            last++;
        }
        append_hunk(out, diff, first, last, old, new);
        first = last + 1;
    }
}

/* --- headers --- */

static void append_name(struct buf *out, const char *before, const char *prefix, const char *path,
                        const char *after)
{
    (void)buf_append_text(out, before);
    if (prefix) {
        (void)quote_append(out, prefix, path, strlen(path), /* force= */ false);
    } else {
        (void)buf_append_text(out, "/dev/null");
    }
    (void)buf_append_text(out, after);
}

static void append_header(struct buf *out, const char *path, unsigned old_mode, unsigned new_mode)
{
    append_name(out, "diff --git ", "a/", path, " ");
    append_name(out, "", "b/", path, "\n");
    if (!old_mode) {
        (void)buf_appendf(out, "new file mode %06o\n", new_mode);
    } else if (!new_mode) {
        (void)buf_appendf(out, "deleted file mode %06o\n", old_mode);
    } else if (old_mode != new_mode) {
        (void)buf_appendf(out, "old mode %06o\nnew mode %06o\n", old_mode, new_mode);
    }
}

/* A file of one type on both sides, or on one. */
static int write_change(const char *path, const struct patch_file *old,
                        const struct patch_file *new, uint64_t *work, struct buf *out,
                        struct patch_counts *counts)
{
    struct diff_text old_text = {old->bytes, (size_t)old->size};
    struct diff_text new_text = {new->bytes, (size_t) new->size};
    OWNED(diff_done) struct diff diff = {};
    int r = 0;
    if (!is_same(old, new)) {
        r = diff_lines(old_text, new_text, work, &diff);
        counts->added += (uint32_t)diff.added;
        counts->removed += (uint32_t)diff.removed;
        counts->invisible = counts->invisible || adds_invisible(&diff, new_text);
    }
    if (r < 0 || !out) {
        return r;
    }
    /* A tab ends a name with a blank, as git writes it. */
    const char *end = strchr(path, ' ') ? "\t\n" : "\n";
    append_header(out, path, git_mode(old->mode), git_mode(new->mode));
    if (diff.count > 0) {
        append_name(out, "--- ", old->mode ? "a/" : NULL, path, old->mode ? end : "\n");
        append_name(out, "+++ ", new->mode ? "b/" : NULL, path, new->mode ? end : "\n");
        append_hunks(out, &diff, old_text, new_text);
    }
    return buf_error(out);
}

int patch_write(const char *path, const struct patch_file *old, const struct patch_file *new,
                uint64_t *work, struct buf *out, struct patch_counts *ret)
{
    /* Git knows no directories: they are what is in them. */
    old = S_ISDIR(old->mode) || !old->mode ? &none : old;
    new = S_ISDIR(new->mode) || !new->mode ? &none : new;
    unsigned old_mode = git_mode(old->mode);
    unsigned new_mode = git_mode(new->mode);
    bool same = is_same(old, new);
    *ret = (struct patch_counts){};
    if ((!old->mode && !new->mode) || (old_mode && old_mode == new_mode && same)) {
        return 0;
    }
    bool odd = (old->mode && !old_mode) || (new->mode && !new_mode);
    bool only_mode = S_ISREG(old->mode) && S_ISREG(new->mode) && same;
    if (odd || !is_read(old) || !is_read(new) ||
        (!only_mode && (is_binary(old) || is_binary(new)))) {
        *ret = (struct patch_counts){.added = UINT32_MAX, .removed = UINT32_MAX};
        return out ? comment(path, old, new, out) : 0;
    }
    if (out && git_refuses(path)) {
        int r = write_change(path, old, new, work, NULL, ret);
        return r ? r : comment(path, old, new, out);
    }
    if (old_mode && new_mode && S_ISLNK(old->mode) != S_ISLNK(new->mode)) {
        int r = write_change(path, old, &none, work, out, ret);
        return r ? r : write_change(path, &none, new, work, out, ret);
    }
    return write_change(path, old, new, work, out, ret);
}
