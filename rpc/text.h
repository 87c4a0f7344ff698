#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
