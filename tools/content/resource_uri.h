#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* URIs of workspace files, and the order in which they are listed. */

#define RESOURCE_PREFIX "sandpiper://workspace/"

/* New: the URI of a path relative to the workspace, of any bytes; NULL when out of memory. */
json_t *resource_uri(const char *path);

/* The MIME type of a file with this name, borrowed. */
const char *resource_type(const char *path);

/* The same, where the file's content is text. */
const char *resource_text_type(const char *path);

/* New: the content block that names a file by its path relative to the workspace; NULL when that is
 * none of those that a client lists, or out of memory. */
json_t *resource_link(const char *path, uint64_t size);

/* The path that uri names. False when it can name no file of the workspace. */
bool resource_path(const char *uri, char out[LIMIT_PATH_BYTES]);

/* The absolute path that a file URI (RFC 8089) or an address of the form sandbox:/PATH names.
 * False for anything else. */
bool resource_file_path(const char *uri, char out[LIMIT_PATH_BYTES]);

/* New: a path as an opaque cursor; and back. */
json_t *resource_cursor(const char *path);
bool resource_cursor_read(const char *cursor, char out[LIMIT_PATH_BYTES]);

/* Where path is relative to cursor, for a walk through sorted directories that goes on after it. */
enum resource_place {
    RESOURCE_BEFORE, /* listed already */
    RESOURCE_LEADS,  /* cursor is below path, or is path: only what is below path may be new */
    RESOURCE_BEHIND, /* new */
};
enum resource_place resource_place(const char *path, const char *cursor);
