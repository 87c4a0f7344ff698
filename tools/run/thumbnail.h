#pragma once
#include <stddef.h>

struct tools;

/* An image that is too large for an answer, or of a type that hosts do not show, made into one that
 * fits, by the user's interpreter in a session of its own that sees what run_python sees. */

enum thumbnail_outcome {
    THUMBNAIL_MADE,
    THUMBNAIL_NO_TOOL, /* this interpreter has nothing to make one with: the image may still be good */
    THUMBNAIL_FAILED,
};

/* bytes: a PNG or JPEG image of at most LIMIT_IMAGES_BYTES, borrowed; NULL when none was made. reason: a
 * clause that says why, then. */
typedef void (*thumbnail_fn)(void *arg, enum thumbnail_outcome outcome, const void *bytes,
                             size_t size, const char *reason);

/* fn is called once, maybe before this returns. */
void thumbnail_make(struct tools *tools, const char *path, thumbnail_fn fn, void *arg);
