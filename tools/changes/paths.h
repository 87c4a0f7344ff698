#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The argument `paths` of list_changes and apply_changes. */

struct box_spec;

enum { CHANGES_PATHS = 200 }; /* maxItems in the schemas */

struct changes_paths {
    char *at[CHANGES_PATHS]; /* relative to the workspace and normal; "": all of it */
    size_t count;            /* 0: everything */
};

/* Takes the paths: relative to the workspace, or absolute in the sandbox or on the host; as they
 * are, or quoted as in a list of changes.
 * 0; -EINVAL with a sentence in *why; -ENOMEM. changes_paths_done() in any case. */
int changes_paths_take(const struct box_spec *spec, const json_t *argument,
                       struct changes_paths *ret, struct buf *why);
void changes_paths_done(struct changes_paths *paths);

/* Whether the changed path is one of them or in one. */
bool changes_paths_have(const struct changes_paths *paths, const char *path);

/* The bytes of the changed path that are a directory which tools fill and can fill again, unless
 * the paths name it or something in it; 0: none. */
size_t changes_paths_cache(const struct changes_paths *paths, const char *path);
