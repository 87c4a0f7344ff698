#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* One file's part of a patch for `git apply`. Pure. */

enum { PATCH_FILE_BYTES = 16 << 20 }; /* larger files are not in a patch, as are binary ones */

/* One side of a change. */
struct patch_file {
    uint32_t mode; /* st_mode; 0: there is no file */
    uint64_t size; /* 0 for a directory */
    /* The content, or a symlink's target. NULL: not read; the file is then not in the patch. Must
     * not change meanwhile. */
    const char *bytes;
};

struct patch_counts {
    uint32_t
        added; /* lines; both UINT32_MAX: the file is not in the patch, or no line would tell */
    uint32_t removed;
    bool invisible; /* an added line has characters that are not seen, or change how others are:
                       escape sequences, a return alone, no width, another direction ("Trojan
                       Source", CVE-2021-42574) */
};

/* Appends what makes new of old at path: nothing if they are equal or directories, a comment where
 * a patch of text cannot have it. out: NULL only to count. work: see diff_lines(). 0 or -ENOMEM;
 * out then has a part of it. */
[[nodiscard]] int patch_write(const char *path, const struct patch_file *old,
                              const struct patch_file *new, uint64_t *work, struct buf *out,
                              struct patch_counts *ret);

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
