#pragma once
#include <stddef.h>

struct buf;

/* Appends UTF-16 text, which begins with its byte order mark, as UTF-8; U+FFFD replaces what is no
 * character. 0 or -ENOMEM. */
int utf16_decode(const char *bytes, size_t size, struct buf *out);
