#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

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

char *utf8_put(char *at, uint32_t code)
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

enum { PARTS = 4 };

/* Hangul syllables: Unicode 15, section 3.12. */
enum {
    SYLLABLE = 0xAC00,
    LEAD = 0x1100,
    VOWEL = 0x1161,
    TAIL = 0x11A7,
    VOWELS = 21,
    TAILS = 28,
    SYLLABLES = 19 * VOWELS * TAILS,
};

/* A text as decomposed characters. */
struct reader {
    const char *at;
    uint32_t parts[PARTS + 1]; /* of the last character: the next first, 0 after the last */
};

static int compare(const void *code, const void *row)
{
    uint32_t a = *(const uint32_t *)code;
    uint32_t b = ((const struct decomposition *)row)->code;
    return (a > b) - (a < b);
}

static void decompose(uint32_t code, uint32_t parts[PARTS + 1])
{
    uint32_t index = code - SYLLABLE;
    const struct decomposition *row =
        bsearch(&code, decompositions, decompositions_count, sizeof *decompositions, compare);
    memset(parts, 0, sizeof(uint32_t[PARTS + 1]));
    parts[0] = code;
    if (code >= SYLLABLE && index < SYLLABLES) {
        parts[0] = LEAD + index / (VOWELS * TAILS);
        parts[1] = VOWEL + index / TAILS % VOWELS;
        parts[2] = index % TAILS ? TAIL + index % TAILS : 0;
    } else if (row) {
        memcpy(parts, row->parts, sizeof row->parts);
    }
}

/* The next character, or 0 at the end. A byte that is not UTF-8 is none. */
static uint32_t next(struct reader *reader)
{
    if (!reader->parts[0] && *reader->at) {
        int size = utf8_size(reader->at, strlen(reader->at));
        uint32_t code = size > 0 ? utf8_code(reader->at, size)
                                 : 0x110000 + (uint32_t)(unsigned char)*reader->at;
        reader->at += size > 0 ? size : 1;
        decompose(code, reader->parts);
    }
    uint32_t part = reader->parts[0];
    memmove(reader->parts, reader->parts + 1, PARTS * sizeof *reader->parts);
    return part;
}

bool normal_same(const char *a, const char *b)
{
    struct reader left = {.at = a};
    struct reader right = {.at = b};
    uint32_t part = 0;
    do {
        part = next(&left);
        if (part != next(&right)) {
            return false;
        }
    } while (part);
    return true;
}

size_t normal_decompose(const char *text, int size, char out[NORMAL_BYTES])
{
    uint32_t parts[PARTS + 1];
    char *at = out;
    decompose(utf8_code(text, size), parts);
    for (unsigned i = 0; parts[i]; i++) {
        at = utf8_put(at, parts[i]);
    }
    return (size_t)(at - out);
}
