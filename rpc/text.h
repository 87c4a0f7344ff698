#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/parse.h"

struct buf;

/* New: a JSON string of any bytes. Replaces what is not UTF-8 by U+FFFD, one for each maximal part
 * of a character (Unicode 15, section 3.9, table 3-8). Returns NULL when out of memory. */
json_t *rpc_text(const char *bytes, size_t size);

/* The string's text, borrowed; NULL when value is no string, or holds a NUL, which would cut it
 * short. */
const char *rpc_text_plain(const json_t *value);

/* New: the value of JSON text of a bounded depth. Clients send half of a surrogate pair, as code
 * that cuts text has it: U+FFFD stands for it. */
json_t *rpc_text_load(const char *bytes, size_t size, json_error_t *error);

/* The same, but a mark stands for each, if *ret_marked, until rpc_text_unmark(). */
json_t *rpc_text_load_marked(const char *bytes, size_t size, json_error_t *error, bool *ret_marked);

/* Puts U+FFFD in the place of the marks in all strings of value but those of the value but, which
 * may be NULL. Returns how many there were. */
size_t rpc_text_unmark(json_t *value, const json_t *but);

/* Whether JSON text nests at most depth deep and has no more values than a message may have. */
bool rpc_text_fits(const char *bytes, size_t size, unsigned depth);

/* New: the value of JSON text, NULL for any other, and for one that nests deeper than depth. */
json_t *rpc_text_value(const char *bytes, size_t size, unsigned depth);

/* How many of the bytes are sent as no more than *characters, whole characters only. Lowers
 * *characters by what they take: six for each escape by number that a dump may write, as \u0001,
 * else one. */
size_t rpc_text_fitting(const char *bytes, size_t size, size_t *characters);

/* Appends value as compact JSON without any byte at which a line reader could split: besides the C0
 * controls, also DEL, U+0080 to U+009F, U+2028 and U+2029 are escaped. Fails as buf_append()
 * does, all or nothing. */
int rpc_text_dump(struct buf *buf, const json_t *value);

/* The same for JSON that is itself read, as text or on a terminal: escapes every invisible
 * character (base/word.h). */
int rpc_text_show(struct buf *buf, const json_t *value);

enum { RPC_TIME_BYTES = 32 };

/* "2026-11-22T10:15:02.123Z", of milliseconds since 1970. Returns out. */
const char *rpc_text_time(uint64_t ms, char out[RPC_TIME_BYTES]);

/* --- scan --- */

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
