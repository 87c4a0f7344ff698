#pragma once
#include <jansson.h>
#include <stdbool.h>

struct buf;

/* Whether code that ran again did the same. */

/* Whether two figures that are not the same bytes show the same. */
typedef bool (*record_pixels_fn)(void *arg, const char *one, const char *other); /* base64 */

/* Compares two results of a cell: how it ended, what it printed to each stream, its value, its
 * traceback and its figures. Durations, addresses and ids in texts count as the same. Appends to
 * out what differs, each line indented by four. */
bool record_compare(const json_t *was, const json_t *now, record_pixels_fn pixels, void *arg,
                    struct buf *out);
