#include "rpc/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"

/* Smallest and largest second byte after a lead byte, Unicode 15 table 3-7. */
static bool second_byte_fits(uint8_t lead, uint8_t second)
{
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int rpc_text_character(const char *text, size_t left)
{
    const uint8_t *p = (const uint8_t *)text;
    int size = *p < 0x80 ? 1 : *p < 0xC2 ? 0 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : *p < 0xF5 ? 4 : 0;
    if (size == 0) {
        return -1;
    }
    for (int i = 1; i < size; i++) {
        bool fits = (size_t)i < left &&
                    (i == 1 ? second_byte_fits(p[0], p[1]) : p[i] >= 0x80 && p[i] <= 0xBF);
        if (!fits) {
            return -i;
        }
    }
    return size;
}

static json_t *text_repaired(const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    const char *p = bytes;
    const char *end = p + size;
    const char *from = p; /* not yet copied */
    while (p < end) {
        int n = rpc_text_character(p, (size_t)(end - p));
        if (n > 0) {
            p += n;
            continue;
        }
        if (buf_append(&out, from, (size_t)(p - from)) < 0 ||
            buf_append_text(&out, "\xEF\xBF\xBD") < 0) {
            return NULL;
        }
        p -= n;
        from = p;
    }
    if (buf_append(&out, from, (size_t)(p - from)) < 0) {
        return NULL;
    }
    return json_stringn_nocheck(buf_bytes(&out), buf_size(&out));
}

json_t *rpc_text(const char *bytes, size_t size)
{
    if (size == 0) {
        return json_string("");
    }
    json_t *text = json_stringn(bytes, size); /* checks; the usual case costs one pass */
    return text ? text : text_repaired(bytes, size);
}

const char *rpc_text_plain(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* Size of the character at p that must be escaped although JSON allows it, or 0. *ret_code is it.
 * Other hosts' line readers split at these, and terminals obey some. */
static size_t unsafe_character(const uint8_t *p, size_t left, unsigned *ret_code)
{
    if (*p == 0x7F) {
        *ret_code = 0x7F;
        return 1;
    }
    if (*p == 0xC2 && left > 1 && p[1] <= 0x9F) { /* C1 controls, among them NEL */
        *ret_code = p[1];
        return 2;
    }
    if (*p == 0xE2 && left > 2 && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9)) {
        *ret_code = 0x2000U | (p[2] & 0x3FU);
        return 3;
    }
    return 0;
}

/* jansson hands over whole characters: it cuts only where it escapes one. */
static int dump_chunk(const char *bytes, size_t size, void *arg)
{
    struct buf *out = arg;
    const uint8_t *p = (const uint8_t *)bytes;
    const uint8_t *end = p + size;
    const uint8_t *from = p; /* not yet copied */
    while (p < end) {
        unsigned code = 0;
        size_t n = *p < 0x7F ? 0 : unsafe_character(p, (size_t)(end - p), &code);
        if (n == 0) {
            p++;
            continue;
        }
        if (buf_append(out, from, (size_t)(p - from)) < 0 ||
            buf_appendf(out, "\\u%04X", code) < 0) {
            return -1;
        }
        p += n;
        from = p;
    }
    return buf_append(out, from, (size_t)(p - from));
}

int rpc_text_dump(struct buf *buf, const json_t *value)
{
    size_t before = buf_size(buf);
    if (json_dump_callback(value, dump_chunk, buf, JSON_COMPACT | JSON_ENCODE_ANY) < 0) {
        buf->end = buf->start + before;
        return -ENOMEM;
    }
    return 0;
}
