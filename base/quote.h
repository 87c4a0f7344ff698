#pragma once
#include <stdbool.h>
#include <stddef.h>

struct buf;

/* File names as git writes them without core.quotePath (quote.c in git): a name with a control
 * character, '"' or '\' stands between double quotes, with escapes of C, and other bytes in three
 * octal digits. So does here one with an invisible character, or a byte that is not UTF-8. */

/* Appends prefix and name, as one word, quoted if needed or forced. 0 or -ENOMEM. */
int quote_append(struct buf *out, const char *prefix, const char *name, size_t size, bool force);

/* Appends the bytes that a quoted name stands for. 0, -ENOMEM, or -EINVAL: text is not one quoted
 * name, or there is a NUL in it; out may then have a part of it. */
int quote_parse(const char *text, size_t size, struct buf *out);
