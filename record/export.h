#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "record/book.h"

struct buf;

/* A record in another form. What the session's text says stays text in each of them. */

/* Appends the whole file to out, and to notes what was left out, on one line. session: only the
 * calls of this one; NULL: the form's default. */
typedef void (*record_export_fn)(const struct record_book *book, const char *session,
                                 struct buf *out, struct buf *notes);

/* format: "ipynb", "py", "md", "html", or NULL. Returns NULL for another one. */
record_export_fn record_export_find(const char *format);

/* --- what the forms share --- */

/* The type of a figure that is shown, by the first bytes that its base64 stands for; NULL: none. */
const char *record_image_type(const json_t *data);

/* Whether the entry belongs to this session, or to none. session NULL: to any. */
bool record_is_of(const struct record_entry *entry, const char *session);

/* Appends all that was printed, in its order; to this stream, or to any (NULL). */
void record_join_output(const json_t *result, const char *stream, struct buf *out);

void record_export_html(const struct record_book *book, const char *session, struct buf *out,
                        struct buf *notes);
void record_export_ipynb(const struct record_book *book, const char *session, struct buf *out,
                         struct buf *notes);
void record_export_md(const struct record_book *book, const char *session, struct buf *out,
                      struct buf *notes);
void record_export_py(const struct record_book *book, const char *session, struct buf *out,
                      struct buf *notes);

/* Whether code that ran again did the same. */

/* Whether two figures that are not the same bytes show the same. */
typedef bool (*record_pixels_fn)(void *arg, const char *one, const char *other); /* base64 */

/* Compares two results of a cell: how it ended, what it printed to each stream, its value, its
 * traceback and its figures. Durations, addresses and ids in texts count as the same. Appends to
 * out what differs, each line indented by four. */
bool record_compare(const json_t *was, const json_t *now, record_pixels_fn pixels, void *arg,
                    struct buf *out);
