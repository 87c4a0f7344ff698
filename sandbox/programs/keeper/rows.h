#pragma once
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct record;
struct version;

/* What the status line says of changed files. NULL: no memory, which counts as no rows. */
struct rows;
struct rows *rows_new(void);
enum row_kind {
    ROW_SURE,
    ROW_DOUBTED, /* it may be the user's own change */
    ROW_MOVED,   /* a directory, with all that is in it */
};
void rows_add(struct rows *rows, const struct record *record, const struct version *from,
              enum row_kind kind);
/* Appends the rows, as WIRE_KEPT_ROW items, and frees them. Returns how many files found no
 * space. */
uint32_t rows_tell(struct rows *rows, struct buf *text);
