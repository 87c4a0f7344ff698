#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct box_spec;
struct buf;

/* Describes the user's directories (--mount) to models. They are below /data if the sandbox has its
 * own root. */

/* " The user's directories, read-only: /data/a, /data/b; writable: /data/c." if that fits, else a
 * sentence that names none; empty when there are none. size: at least 72. */
void data_describe(const struct box_spec *spec, char *out, size_t size);

/* Appends a line for each directory with its path on the host, which a user may mention. 0 or
 * -ENOMEM */
int data_list(const struct box_spec *spec, struct buf *out);

/* The sandbox's path of what the user calls path: a path of the host at or below the workspace or a
 * mounted directory, unless it can as well be one of the sandbox. False: it is none. */
bool data_find(const struct box_spec *spec, const char *path, char *out, size_t size);

/* The same of the user's home directory with rest after it, such as "/Sandpiper/a.csv". */
bool data_find_home(const struct box_spec *spec, const char *rest, char *out, size_t size);

/* Writes "the user's directory /srv/in is /data/in here" if text has a path of the host at or below
 * such a directory. Returns whether it has one. */
bool data_explain(const struct box_spec *spec, const char *text, char *out, size_t size);

/* The place of a relative path in the mounted directory number at; "": it has none. False: there is
 * no such directory. */
bool data_beside(const struct box_spec *spec, unsigned at, const char *path, char *out,
                 size_t size);

/* Guesses the meaning of a path that does not exist: one that begins with the name of a mounted
 * directory. False: no guess. */
bool data_guess(const struct box_spec *spec, const char *path, char *out, size_t size);

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
