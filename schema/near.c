#include "schema/schema.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NEAR_WORD = 64, NEAR_DISTANCE = 2, NEAR_PART = 3 };

/* Levenshtein distance; both words shorter than NEAR_WORD. */
static unsigned near_distance(const char *a, const char *b)
{
    unsigned row[NEAR_WORD + 1];
    size_t b_size = strlen(b);
    for (unsigned j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (unsigned i = 0; a[i]; i++) {
        unsigned diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            unsigned best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = diagonal + 1 < best ? diagonal + 1 : best;
            row[j + 1] = best;
        }
    }
    return row[b_size];
}

/* Whether one word contains the other, as "file_path" and "path". */
static bool near_part(const char *a, const char *b)
{
    return strlen(a) >= NEAR_PART && strlen(b) >= NEAR_PART &&
           (strcasestr(a, b) || strcasestr(b, a));
}

const char *near_key(const json_t *object, const char *word)
{
    if (strlen(word) >= NEAR_WORD) {
        return NULL;
    }
    const char *best = NULL;
    bool ties = false; /* "text" is as near to old_text as to new_text: it means neither */
    unsigned best_score = NEAR_DISTANCE + 1;
    void *at = json_object_iter((json_t *)(uintptr_t)object);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        const char *key = json_object_iter_key(at);
        if (strlen(key) >= NEAR_WORD) {
            continue;
        }
        size_t longer =
            strlen(key) > strlen(word) ? strlen(key) - strlen(word) : strlen(word) - strlen(key);
        unsigned score = longer > NEAR_DISTANCE ? NEAR_DISTANCE + 1 : near_distance(word, key);
        if (near_part(word, key) && score > NEAR_DISTANCE) {
            score = NEAR_DISTANCE;
        }
        /* Where more than half of the letters are wrong, the words have nothing in common. */
        if (score < best_score && 2UL * score <= strlen(word)) {
            best = key;
            best_score = score;
            ties = false;
        } else if (score == best_score && near_part(word, key)) {
            ties = true;
        }
    }
    return ties ? NULL : best;
}
