#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;

/* Files of other forms as text. */

/* Appends UTF-16 text, which begins with its byte order mark, as UTF-8; U+FFFD replaces what is no
 * character. 0 or -ENOMEM. */
int utf16_decode(const char *bytes, size_t size, struct buf *out);

bool ipynb_is(const char *path);

/* Appends a notebook of format 4 as text: its cells, and what they have printed; other outputs by
 * their types. 0, -ENOMEM, or -EINVAL: it is none. */
int ipynb_decode(const char *bytes, size_t size, struct buf *out);
