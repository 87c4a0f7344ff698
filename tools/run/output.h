#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* What a run printed: its beginning and its end are kept, the middle is counted, so that a gigabyte
 * costs no more than a page. Where stdout and stderr are both used, changes between them are
 * marked. */

struct output {
    char *head;
    size_t head_size;
    char *tail; /* ring, allocated with the first byte that the head does not take */
    size_t tail_at;
    uint64_t total;      /* bytes that were printed, without marks */
    uint64_t kept_total; /* bytes that were offered to head and tail, with marks */
    uint64_t stream_bytes[2];
    int first_stream; /* -1: none yet */
    int last_stream;
    size_t line_size; /* bytes since a line began */
    bool long_line;   /* one was longer than is shown */
    /* Where all of it is; empty: nowhere. file_size: how much, less than total on a full disk. */
    char file[320];
    uint64_t file_size;
};

void output_init(struct output *output);
void output_done(struct output *output);

/* stream: enum box_stream. */
void output_add(struct output *output, unsigned stream, const char *bytes, size_t size);

/* Whether compose leaves something out. */
bool output_is_cut(const struct output *output);

/* Whether adding bytes is the first time that compose would leave something out. Until then
 * output_append_raw gives all that was added, but NULs; from then on both ends. 0 or -ENOMEM. */
bool output_overflows(const struct output *output, const char *bytes, size_t size);
int output_append_raw(const struct output *output, struct buf *raw);

/* The last line that is not blank, as far as it is here, without control characters; cut at the end
 * where out is too small. Returns out. */
char *output_last_line(const struct output *output, char *out, size_t size);

/* Appends the text for a model: clean of terminal codes and NULs, progress lines folded to their
 * last state, cut in the middle with a count. Ends with a newline unless empty. 0 or -ENOMEM. */
int output_compose(const struct output *output, struct buf *text);
