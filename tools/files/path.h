#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "sandbox/sandbox.h"

/* Paths as arguments of tools. The sandbox is the boundary, not these checks: a path leads the
 * server to the same file as the guest. */

/* Copies a path argument: a resource's URI becomes its path, "~" becomes the sandbox's home
 * directory, and a path of the host at or below one of the user's directories becomes the
 * sandbox's. Returns NULL, or the sentence that says what is wrong with it. */
const char *path_take(const struct box_spec *spec, const json_t *argument,
                      char out[LIMIT_PATH_BYTES]);

/* Whether symlinks lead the path, which is in the workspace as it is written, out of there.
 * leads_to: what box_file_resolve() has found. */
bool path_leads_out(const struct box_paths *paths, const char *path, const char *leads_to);

/* A sentence for an errno value of a file operation. It names the writable directories by their
 * paths. Returns out. */
const char *path_error(const struct box_paths *paths, const char *path, int error, char *out,
                       size_t size);

/* Splits off the last name: writes the directory it is in, "." for the current one, and returns
 * where the name begins. */
size_t path_split(const char *path, size_t size, char directory[LIMIT_PATH_BYTES]);
