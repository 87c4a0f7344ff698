#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/limits.h"
#include "sandbox/sandbox.h"

/* Names of files as tools take them. The box is the boundary, not these checks: a path leads where
 * it leads for the guest. */

/* Copies a path argument. Returns NULL, or the sentence that says what is wrong with it. */
const char *path_take(const json_t *argument, char out[LIMIT_PATH_BYTES]);

/* A sentence for an errno value of a file operation, with what can be written to as view has it. Returns
 * out. */
const char *path_error(const struct box_view *view, const char *path, int error, char *out,
                       size_t size);
