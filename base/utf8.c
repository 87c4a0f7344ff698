#include "base/utf8.h"

/* Smallest and largest second byte after a lead byte, Unicode 15 table 3-7. */
static bool second_byte_fits(uint8_t lead, uint8_t second)
{
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

int utf8_size(const char *text, size_t left)
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

uint32_t utf8_code(const char *text, int size)
{
    const uint8_t *p = (const uint8_t *)text;
    uint32_t code = size == 1 ? p[0] : p[0] & (0x7FU >> size);
    for (int i = 1; i < size; i++) {
        code = code << 6 | (p[i] & 0x3FU);
    }
    return code;
}

bool utf8_is_whole(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        int n = (unsigned char)text[at] < 0x80 ? 1 : utf8_size(text + at, size - at);
        if (n < 0) {
            return false;
        }
        at += (size_t)n;
    }
    return true;
}
