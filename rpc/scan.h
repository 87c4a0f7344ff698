#pragma once
#include <stdbool.h>
#include <stddef.h>

/* A run of bytes that has another owner. */
struct span {
    const char *bytes;
    size_t size;
};

/* Checks JSON text without parsing it: what must be known before jansson gets it, and what can
 * still be read of a line that jansson refuses. Takes any bytes. Never recurses. */

enum scan_size { SCAN_FITS, SCAN_TOO_DEEP, SCAN_TOO_MANY };

/* Whether arrays and objects nest at most depth_limit deep, and whether there are at most
 * values_limit of them and of commas together. */
enum scan_size scan_size(struct span text, unsigned depth_limit, size_t values_limit);

/* Where the value of an object's own member begins, up to the end of the text: the first one with
 * that key, in which nothing is escaped. */
bool scan_member(struct span object, const char *key, struct span *ret_rest);

/* The first integer of more bytes than these, outside of strings: a number without . and e. */
bool scan_integer(struct span text, size_t bytes, struct span *ret_integer);

/* The array or object at the beginning of the text, which is valid JSON. */
struct span scan_container(struct span text);

/* What is kept of a line that is too long: an object's own members, without what is nested deeper
 * and without long strings. Starts zeroed. */
struct scan_outline {
    char text[1024];
    size_t size;
    size_t string_at;   /* where in text the string began that is being passed */
    size_t string_size; /* its bytes so far; 0: none is */
    unsigned depth;
    bool escaped; /* the next byte of the string */
    bool full;    /* more members than text holds: what is kept is worth nothing */
};

/* Passes the next bytes of the line. */
void scan_outline(struct scan_outline *outline, struct span bytes);
