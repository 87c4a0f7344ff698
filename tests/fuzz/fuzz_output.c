/* Any output of code, in pieces of varying sizes and on both streams: the text for a model is
 * bounded, has no control characters, and ends with a line feed. Each piece starts with a byte for
 * its size and stream and a byte for its number of repetitions. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tests/fuzz/fuzz.h"
#include "tools/run/output.h"

/* For the names of streams and the line feed before them: more than the bytes that switch streams.
 */
enum { GROWTH = 12 };

static void check_text(const struct buf *text)
{
    const char *bytes = buf_bytes(text);
    size_t size = buf_size(text);
    if (size > (LIMIT_OUTPUT_HEAD_BYTES + LIMIT_OUTPUT_TAIL_BYTES) * GROWTH ||
        (size > 0 && bytes[size - 1] != '\n')) {
        abort();
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)bytes[i] < ' ' && bytes[i] != '\n' && bytes[i] != '\t') {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct output output;
    struct buf text = BUF_EMPTY;
    output_init(&output);
    uint64_t total = 0;
    for (size_t at = 0; at + 2 < size;) {
        unsigned stream = data[at] & 1;
        size_t piece = 1U + (data[at] >> 1);
        unsigned times = 1U + data[at + 1];
        at += 2;
        piece = size - at < piece ? size - at : piece;
        for (unsigned i = 0; i < times; i++) {
            output_add(&output, stream, (const char *)data + at, piece);
        }
        total += piece * times;
        at += piece;
    }
    if (output.total != total || output.stream_bytes[0] + output.stream_bytes[1] != total ||
        output_compose(&output, &text) < 0) {
        abort();
    }
    if (buf_size(&text) > 0) {
        check_text(&text);
    }
    buf_done(&text);
    output_done(&output);
    return 0;
}
