#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Which lines of two texts differ: the fewest that can be found with a bounded amount of work,
 * after E. W. Myers, An O(ND) Difference Algorithm and Its Variations (1986), in linear space.
 * Whoever chose the texts may have chosen them to be slow. Pure. */

enum {
    /* Lines of both texts together, between what is equal at the beginning and at the end. With
     * more, or without work left, they are all one difference. Memory is about 40 bytes a line. */
    DIFF_LINES = 1 << 18,
    /* A step takes a few ns. About the work for 5,000 differences among many equal lines. */
    DIFF_WORK = 1 << 25,
};

/* Bytes of the old text that others replace: whole lines, or the end of a text. */
struct diff_edit {
    size_t old_at; /* bytes */
    size_t old_size;
    size_t new_at;
    size_t new_size;
    size_t old_line; /* lines before it */
    size_t old_lines;
    size_t new_line;
    size_t new_lines;
};

struct diff {
    uint64_t added; /* lines */
    uint64_t removed;
    size_t count; /* of edits */
    struct buf edits;
};

struct diff_text {
    const char *bytes; /* must not change meanwhile: no mapping of a file that others can write */
    size_t size;
};

/* The edits, in order, that make new of old. work: steps that may be taken, for one pair of texts
 * or for many; counts them down. 0 or -ENOMEM; diff_done() in either case. */
[[nodiscard]] int diff_lines(struct diff_text old, struct diff_text new, uint64_t *work,
                             struct diff *ret);
void diff_done(struct diff *diff);

static inline struct diff_edit *diff_edit(const struct diff *diff, size_t i)
{
    return (struct diff_edit *)(void *)diff->edits.data + i;
}
