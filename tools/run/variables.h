#pragma once
#include <stddef.h>

/* The variables of an interpreter as the guest has reported them, to say what is lost with it.
 * Bounded: of many only the first are known by name, and none that is no identifier. */

enum { NAMES_BYTES = 512 };

struct names {
    char text[NAMES_BYTES];          /* "df model cfg", a space between them */
    unsigned cells[NAMES_BYTES / 2]; /* which cell has bound each of them last */
    unsigned more;                   /* not in text */
};

/* Applies one change that cell has made: "+df", "~x", "-y". */
void names_change(struct names *names, const char *change, size_t size, unsigned cell);

/* What of from is not in rest (NULL: nothing is): "df, model, cfg and 14 more". Empty: nothing.
 * Returns out. */
const char *names_lost(const struct names *from, const struct names *rest, char *out, size_t size);

/* The same for what both have, and a later cell has bound in from: "x, total". What a cell changed
 * inside an object is unknown. */
const char *names_older(const struct names *from, const struct names *rest, char *out, size_t size);
