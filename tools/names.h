#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The variables of an interpreter as the guest has told them, to say what is lost with it. Bounded:
 * of many only the first are known by name, and none that is no identifier. */

enum { NAMES_BYTES = 512 };

struct names {
    char text[NAMES_BYTES]; /* "df model cfg", a space between them */
    unsigned more;          /* not in text */
};

/* Applies one change: "+df", "~x", "-y". */
void names_change(struct names *names, const char *change, size_t size);

/* What of from is not in rest (NULL: nothing is): "df, model, cfg and 14 more". Empty: nothing.
 * Returns out. */
const char *names_lost(const struct names *from, const struct names *rest, char *out, size_t size);
