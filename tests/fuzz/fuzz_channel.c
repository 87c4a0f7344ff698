/* A hostile guest: each field lies within the received bytes, and a frame that was read can be
 * written again byte for byte. The first byte is the size of the pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sandbox/protocol/frames.h"
#include "tests/fuzz/fuzz.h"

enum { FIELDS = 16 };

static void check_message(const struct buf *in, const struct box_field *fields, size_t count,
                          size_t size)
{
    struct buf again = BUF_EMPTY;
    size_t used = sizeof(uint32_t);
    for (size_t i = 0; i < count; i++) {
        used += sizeof(uint32_t);
        if (fields[i].data != buf_bytes(in) + used) {
            abort();
        }
        used += fields[i].size;
    }
    if (count % 2 == 0 || count > FIELDS || size > buf_size(in) || used != size ||
        channel_encode(&again, fields, count) < 0 || buf_size(&again) != size ||
        memcmp(buf_bytes(&again), buf_bytes(in), size) != 0) {
        abort();
    }
    const struct box_message message = {fields, count};
    struct box_field value = {};
    if (box_message_get(&message, "status", &value) &&
        (value.data < buf_bytes(in) || value.data + value.size > buf_bytes(in) + size)) {
        abort();
    }
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? 1 + data[0] % 97U : 1;
    struct buf in = BUF_EMPTY;
    enum channel_result result = CHANNEL_NONE;
    for (size_t at = 1; at < size && result != CHANNEL_BROKEN; at += piece) {
        if (buf_append(&in, data + at, size - at < piece ? size - at : piece) < 0) {
            abort();
        }
        struct box_field fields[FIELDS];
        size_t count = 0;
        size_t used = 0;
        while ((result = channel_next(&in, fields, FIELDS, &count, &used)) == CHANNEL_MESSAGE) {
            check_message(&in, fields, count, used);
            buf_consume(&in, used);
        }
    }
    buf_done(&in);
    return 0;
}
