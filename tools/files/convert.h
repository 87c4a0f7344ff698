#pragma once
#include <stdbool.h>
#include <stddef.h>

struct tools;

/* Converts a file to what a result can show: a document to text, and an image that is too large, or
 * of a type that clients do not show, to one that fits. The user's interpreter does it, in a
 * session of its own with run_python's paths. */

enum convert_outcome {
    CONVERT_MADE,
    CONVERT_NO_TOOL, /* this interpreter lacks the library; the file may still be valid */
    CONVERT_FAILED,
};

/* bytes: at most LIMIT_DOCUMENT_BYTES of text, any bytes, or a PNG or JPEG image of at most
 * LIMIT_IMAGES_BYTES; borrowed, NULL when none was made. reason: then, why, as a clause. */
typedef void (*convert_fn)(void *arg, enum convert_outcome outcome, const void *bytes, size_t size,
                           const char *reason);

struct convert_document {
    const char *suffix;
    const char *library; /* the package that reads it */
    bool is_text;        /* convert_begin() turns it into text */
};

/* The kind of document of a name's suffix, or NULL. */
const struct convert_document *convert_document_of(const char *path);

/* document: one that is_text; NULL: the file is an image. fn is called once, maybe before this
 * returns. */
void convert_begin(struct tools *tools, const char *path, const struct convert_document *document,
                   convert_fn fn, void *arg);
