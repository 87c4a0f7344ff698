#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Lines of text in memory. A line ends with "\n"; the last one may lack it. */

/* Number of line ends. */
size_t lines_ends(const char *bytes, size_t size);

/* Number of lines: a line end at the very end begins no further line. */
size_t lines_count(const char *bytes, size_t size);

/* Moves over *skip line ends. Returns the index after the last of them, and *skip becomes 0; or
 * size when there are fewer, and *skip is then what is still to skip. */
size_t lines_forward(const char *bytes, size_t size, size_t *skip);

/* The same from the end towards the front. Returns the index after the line end that made *skip 0,
 * or 0 when there are fewer. */
size_t lines_backward(const char *bytes, size_t size, size_t *skip);

/* How much of bytes goes into limit bytes: up to a line's end in the second half of them, else up
 * to a whole UTF-8 character. */
size_t lines_cut(const char *bytes, size_t size, size_t limit);

struct buf;

/* Files of other forms as text. */

/* Appends UTF-16 text, which begins with its byte order mark, as UTF-8; U+FFFD replaces what is no
 * character. 0 or -ENOMEM. */
int utf16_decode(const char *bytes, size_t size, struct buf *out);

bool ipynb_is(const char *path);

/* Appends a notebook of format 4 as text: its cells, and what they have printed; other outputs by
 * their types. 0, -ENOMEM, or -EINVAL: it is none. */
int ipynb_decode(const char *bytes, size_t size, struct buf *out);
