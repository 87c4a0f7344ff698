#pragma once
#include <stddef.h>

struct buf;

/* Appends Python code as HTML: escaped, with spans of the classes k, c, s and n (view/view.css)
 * around keywords, comments, strings and numbers. */
void record_highlight(struct buf *out, const char *code, size_t size);
