#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The argument `paths` of list_changes and apply_changes. */

struct box_spec;
struct ignored;

enum { CHANGES_PATHS = 200 }; /* maxItems in the schemas */

struct changes_paths {
    char *at[CHANGES_PATHS]; /* relative to the workspace and normal; "": all of it */
    size_t count;            /* 0: everything */
    struct ignored *ignored; /* NULL: nothing is */
};

/* Takes the paths: relative to the workspace, or absolute in the sandbox or on the host; as they
 * are, or quoted as in a list of changes.
 * 0; -EINVAL with a sentence in *why; -ENOMEM. changes_paths_done() in any case. */
int changes_paths_take(const struct box_spec *spec, const json_t *argument,
                       struct changes_paths *ret, struct buf *why);
void changes_paths_done(struct changes_paths *paths);

/* Whether the changed path is one of them or in one. */
bool changes_paths_have(const struct changes_paths *paths, const char *path);

/* Whether the user has something at this path, under which nothing has changed. */
bool changes_paths_is_there(const struct changes_paths *paths, size_t index);

/* What is left out unless it is named: a directory that tools fill and can fill again, and what the
 * user's .gitignore files ignore. */
enum changes_left { CHANGES_LEFT_NONE, CHANGES_LEFT_CACHE, CHANGES_LEFT_IGNORED };

/* Why a changed path is left out, unless the paths name what is or something in it. mode: its
 * st_mode. *ret_size: the bytes of the path that are left out. */
enum changes_left changes_paths_left(const struct changes_paths *paths, const char *path,
                                     uint32_t mode, size_t *ret_size);

/* What the .gitignore files of a user's directory ignore, gitignore(5): of each directory that is
 * asked about, as they are when it is. Whether git tracks a file is not known; it would not ignore
 * one. */

/* path: the directory, without symlinks; one that is not there ignores nothing. NULL: out of
 * memory. */
struct ignored *ignored_new(const char *path);
void ignored_free(struct ignored *ignored);

/* The bytes of the path (relative, normal) that are the ignored file, or the first directory that
 * is; 0: it is not ignored. Quick where paths of one directory come one after the other. What is
 * too large to be read or matched ignores nothing. */
size_t ignored_find(struct ignored *ignored, const char *path, bool is_directory);
