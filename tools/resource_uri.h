#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/limits.h"

/* Names of workspace files as hosts see them, and the order in which they are listed. */

#define RESOURCE_PREFIX "sandpiper://workspace/"

/* New: the URI of a path relative to the workspace, of any bytes; NULL when there is no memory. */
json_t *resource_uri(const char *path);

/* The path that uri names. False when it can name no file of the workspace. */
bool resource_path(const char *uri, char out[LIMIT_PATH_BYTES]);

/* A path as an opaque cursor, new, and back. */
json_t *resource_cursor(const char *path);
bool resource_cursor_read(const char *cursor, char out[LIMIT_PATH_BYTES]);

/* Where a walk through sorted folders meets path, for one that goes on behind cursor. */
enum resource_place {
    RESOURCE_BEFORE, /* it was listed before */
    RESOURCE_LEADS,  /* cursor lies below it, or is it: only what is below may be new */
    RESOURCE_BEHIND, /* it is new */
};
enum resource_place resource_place(const char *path, const char *cursor);
