#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names of files from macOS have their characters decomposed (Unicode's form NFD), and models and
 * keyboards write them composed (NFC). */

/* Whether two names are the same but for that. Marks in another order make them different. */
bool normal_same(const char *a, const char *b);

/* Written by build-aux/decompositions.py. */
struct decomposition {
    uint32_t code;
    uint32_t parts[4]; /* 0 after the last */
};
extern const struct decomposition decompositions[];
extern const size_t decompositions_count;
