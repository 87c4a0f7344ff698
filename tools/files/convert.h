#pragma once
#include <stddef.h>

struct tools;

/* Converts an image that is too large for a result, or of a type that clients do not show, to one
 * that fits. The user's interpreter does it, in a session of its own with run_python's paths. */

enum convert_outcome {
    CONVERT_MADE,
    CONVERT_NO_TOOL, /* this interpreter has no Pillow; the image may still be valid */
    CONVERT_FAILED,
};

/* bytes: a PNG or JPEG image of at most LIMIT_IMAGES_BYTES, borrowed; NULL when none was made.
 * reason: then, why, as a clause. */
typedef void (*convert_fn)(void *arg, enum convert_outcome outcome, const void *bytes, size_t size,
                           const char *reason);

/* fn is called once, maybe before this returns. */
void convert_begin(struct tools *tools, const char *path, convert_fn fn, void *arg);
