#include "base/normal.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

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
