/* The first byte is the size of the pieces, which must not affect the lines. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/message.h"
#include "tests/fuzz/fuzz.h"

enum { LINE_MAX_BYTES = 24 };

/* A digest of all results, so that two piece sizes can be compared. */
static uint64_t frame_digest(const uint8_t *data, size_t size, size_t piece)
{
    struct frame frame = {};
    uint64_t digest = 0xcbf29ce484222325;
    for (size_t at = 0; at <= size;) {
        size_t n = size - at < piece ? size - at : piece;
        char *space = NULL;
        if (frame_reserve(&frame, piece, &space) < 0) {
            abort();
        }
        memcpy(space, data + at, n);
        frame_commit(&frame, n);
        at += n;
        bool at_end = at == size;
        struct span line = {};
        enum frame_result result;
        while ((result = frame_next(&frame, LINE_MAX_BYTES, at_end, &line)) != FRAME_NONE) {
            assert(result != FRAME_LINE || (line.size > 0 && line.size <= LINE_MAX_BYTES));
            digest = (digest ^ result) * 0x100000001b3;
            for (size_t i = 0; result == FRAME_LINE && i < line.size; i++) {
                assert(line.bytes[i] != '\n');
                digest = (digest ^ (uint8_t)line.bytes[i]) * 0x100000001b3;
            }
        }
        assert(buf_size(&frame.in) <= LINE_MAX_BYTES + 4 + piece);
        if (at_end) {
            break;
        }
    }
    frame_done(&frame);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t piece = 1 + data[0] % 40;
    if (frame_digest(data + 1, size - 1, piece) != frame_digest(data + 1, size - 1, size)) {
        abort();
    }
    return 0;
}
