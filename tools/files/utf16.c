#include "tools/files/decode.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { REPLACEMENT = 0xfffd, UTF8_MOST = 3 /* bytes for one 16-bit unit */ };

static char *put(char *at, uint32_t code)
{
    if (code < 0x80) {
        *at++ = (char)code;
        return at;
    }
    if (code < 0x800) {
        *at++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *at++ = (char)(0xe0 | code >> 12);
        } else {
            *at++ = (char)(0xf0 | code >> 18);
            *at++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *at++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *at++ = (char)(0x80 | (code & 0x3f));
    return at;
}

int utf16_decode(const char *bytes, size_t size, struct buf *out)
{
    const uint8_t *p = (const uint8_t *)bytes;
    bool big = size >= 2 && p[0] == 0xfe;
    char *space = NULL;
    int r = buf_reserve(out, (size / 2 + 1) * UTF8_MOST, &space);
    if (r < 0) {
        return r;
    }
    char *at = space;
    uint32_t high = 0; /* the first half of a surrogate pair, until its second comes, or 0 */
    for (size_t i = 2; i + 1 < size; i += 2) {
        uint32_t unit = big ? (uint32_t)p[i] << 8 | p[i + 1] : (uint32_t)p[i + 1] << 8 | p[i];
        bool is_low = unit >= 0xdc00 && unit < 0xe000;
        if (high && is_low) {
            at = put(at, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
            high = 0;
            continue;
        }
        if (high) {
            at = put(at, REPLACEMENT);
        }
        high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
        if (!high) {
            at = put(at, is_low ? REPLACEMENT : unit);
        }
    }
    if (high || size % 2) {
        at = put(at, REPLACEMENT);
    }
    buf_commit(out, (size_t)(at - space));
    return 0;
}
