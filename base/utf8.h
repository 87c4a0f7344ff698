#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a byte goes on with a character. */
static inline bool utf8_is_inner(char byte)
{
    return ((unsigned char)byte & 0xC0U) == 0x80U;
}

/* Size of the UTF-8 character at the front of text, which has left bytes, at least one; or minus
 * the number of bytes that belong to a broken one (Unicode 15, section 3.9, table 3-7). */
int utf8_size(const char *text, size_t left);

/* The code point of a whole character of that size. */
uint32_t utf8_code(const char *text, int size);

/* Whether the text is whole UTF-8 characters. */
bool utf8_is_whole(const char *text, size_t size);

/* Writes a code point, up to 4 bytes, at at. Returns where they end. */
char *utf8_put(char *at, uint32_t code);

/* Names of files from macOS have their characters decomposed (Unicode's form NFD), and models and
 * keyboards write them composed (NFC). */

/* Whether two names are the same but for that. Marks in another order make them different. */
bool normal_same(const char *a, const char *b);

enum { NORMAL_BYTES = 16 };

/* The decomposed form of the whole character of that size at the front of text. Returns its size:
 * that of the character itself where it has no other. */
size_t normal_decompose(const char *text, int size, char out[NORMAL_BYTES]);

/* Written by build-aux/decompositions.py. */
struct decomposition {
    uint32_t code;
    uint32_t parts[4]; /* 0 after the last */
};
extern const struct decomposition decompositions[];
extern const size_t decompositions_count;
