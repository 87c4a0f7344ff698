#pragma once
#include <stddef.h>

struct buf;

/* Appends text as a block of Markdown, between fences that are longer than any in the text; nothing
 * if it is empty. */
void record_fence(struct buf *out, const char *language, const char *text, size_t size);
