#include "sandbox/programs/keeper/diff.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_same(const struct state *state, int32_t old, int32_t new)
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
               is_same(state, old - back, old - k - back)) {
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
           is_same(state, area.old_begin, area.new_begin)) {
        area.old_begin++;
        area.new_begin++;
    }
    while (area.old_begin < area.old_end && area.new_begin < area.new_end &&
           is_same(state, area.old_end - 1, area.new_end - 1)) {
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
