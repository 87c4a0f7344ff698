#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a file, by its first bytes. */

enum magic_kind {
    MAGIC_TEXT,
    MAGIC_UTF16,   /* text, with a byte order mark */
    MAGIC_IMAGE,   /* of a type that clients show */
    MAGIC_PICTURE, /* an image of another type */
    MAGIC_BINARY,
};

struct magic {
    enum magic_kind kind;
    const char *name; /* "SQLite database", static; NULL for text, and for unknown formats */
};

/* How many bytes of a file's beginning magic_of needs. */
enum { MAGIC_BYTES = 8192 };

struct magic magic_of(const char *bytes, size_t size);

/* Whether a PNG or GIF image is whole, and whether a JPEG or WebP image has its end. A damaged
 * image must not reach a client: some refuse the whole conversation for it. */
bool magic_is_whole(const char *bytes, size_t size);

/* Width and height of a PNG, GIF, JPEG or WebP image. False if bytes do not have them. */
bool magic_measure(const char *bytes, size_t size, uint32_t *ret_width, uint32_t *ret_height);
