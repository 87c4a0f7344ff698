#pragma once
#include <stddef.h>

struct buf;

/* Replaces one place of a text. */

struct edit {
    const char *old_text; /* must be at exactly one place */
    size_t old_size;      /* not 0 */
    const char *new_text;
    size_t new_size;
};

/* Appends the edited text to bytes and the lines to said: "lines 4-5, now 4-7; 90 lines in all".
 * Returns 1 if there is not exactly one place: said gets what to say after the file's name. Line
 * ends of old_text stand for those of the text, and new_text gets the same: clients show both kinds
 * alike. 0, 1 or -ENOMEM. */
int edit_apply(const char *text, size_t size, const struct edit *edit, struct buf *bytes,
               struct buf *said);
