#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file is, by its first bytes. */

enum magic_kind {
    MAGIC_TEXT,
    MAGIC_UTF16,   /* text, with a byte order mark */
    MAGIC_IMAGE,   /* of a type that hosts show */
    MAGIC_PICTURE, /* an image of another type */
    MAGIC_BINARY,
};

struct magic {
    enum magic_kind kind;
    const char *name; /* "SQLite database", static; NULL for text, and for what is not known */
};

/* How many bytes of a file's beginning magic_of wants. */
enum { MAGIC_BYTES = 8192 };

struct magic magic_of(const char *bytes, size_t size);

/* Whether the end of a PNG, GIF, JPEG or WebP image is there. An image that is cut off must not reach a
 * host: some refuse the whole conversation for it. */
bool magic_is_whole(const char *bytes, size_t size);

/* Width and height of a PNG, GIF, JPEG or WebP image. False where they cannot be found in bytes. */
bool magic_measure(const char *bytes, size_t size, uint32_t *ret_width, uint32_t *ret_height);
