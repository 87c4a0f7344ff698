#include "sandbox/protocol/frames.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/parse.h"

static uint32_t read_u32(const char *bytes)
{
    uint32_t value = 0;
    memcpy(&value, bytes, sizeof value);
    return le32toh(value);
}

enum channel_result channel_next(const struct buf *in, struct box_field *fields, size_t max_fields,
                                 size_t *ret_count, size_t *ret_size)
{
    size_t have = buf_size(in);
    if (have < sizeof(uint32_t)) {
        return CHANNEL_NONE;
    }
    const char *bytes = buf_bytes(in);
    size_t size = read_u32(bytes);
    if (size > LIMIT_FRAME_IN_BYTES) {
        return CHANNEL_BROKEN;
    }
    if (have - sizeof(uint32_t) < size) {
        return CHANNEL_NONE;
    }
    const char *at = bytes + sizeof(uint32_t);
    const char *end = at + size;
    size_t count = 0;
    while (at < end) {
        if ((size_t)(end - at) < sizeof(uint32_t) || count == max_fields) {
            return CHANNEL_BROKEN;
        }
        size_t field = read_u32(at);
        at += sizeof(uint32_t);
        if (field > (size_t)(end - at)) {
            return CHANNEL_BROKEN;
        }
        fields[count++] = (struct box_field){.data = at, .size = field};
        at += field;
    }
    if (count % 2 == 0) {
        return CHANNEL_BROKEN; /* a verb, then pairs */
    }
    *ret_count = count;
    *ret_size = sizeof(uint32_t) + size;
    return CHANNEL_MESSAGE;
}

int channel_encode(struct buf *out, const struct box_field *fields, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        if (fields[i].size > LIMIT_FRAME_OUT_BYTES) {
            return -EMSGSIZE;
        }
        size += sizeof(uint32_t) + fields[i].size;
        if (size > LIMIT_FRAME_OUT_BYTES) {
            return -EMSGSIZE;
        }
    }
    char *space = NULL;
    int r = buf_reserve(out, sizeof(uint32_t) + size, &space);
    if (r < 0) {
        return r;
    }
    uint32_t head = htole32((uint32_t)size);
    memcpy(space, &head, sizeof head);
    space += sizeof head;
    for (size_t i = 0; i < count; i++) {
        head = htole32((uint32_t)fields[i].size);
        memcpy(space, &head, sizeof head);
        space += sizeof head;
        if (fields[i].size > 0) {
            memcpy(space, fields[i].data, fields[i].size);
            space += fields[i].size;
        }
    }
    buf_commit(out, sizeof(uint32_t) + size);
    return 0;
}

bool box_field_is(const struct box_field *field, const char *text)
{
    return field->size == strlen(text) && memcmp(field->data, text, field->size) == 0;
}

bool box_message_get(const struct box_message *message, const char *name,
                     struct box_field *ret_value)
{
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        if (box_field_is(&message->fields[i], name)) {
            *ret_value = message->fields[i + 1];
            return true;
        }
    }
    return false;
}

uint64_t box_message_number(const struct box_message *message, const char *name, uint64_t missing)
{
    struct box_field field;
    char text[24] = "";
    uint64_t value = 0;
    if (!box_message_get(message, name, &field) || field.size >= sizeof text) {
        return missing;
    }
    memcpy(text, field.data, field.size);
    return parse_u64(text, &value) == 0 ? value : missing;
}
