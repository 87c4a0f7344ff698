#pragma once
#include <stdbool.h>
#include <stddef.h>

/* What the .gitignore files of a user's directory ignore, gitignore(5): of each directory that is
 * asked about, as they are when it is. Whether git tracks a file is not known; it would not ignore
 * one. */

struct ignored;

/* path: the directory, without symlinks; one that is not there ignores nothing. NULL: out of
 * memory. */
struct ignored *ignored_new(const char *path);
void ignored_free(struct ignored *ignored);

/* The bytes of the path (relative, normal) that are the ignored file, or the first directory that
 * is; 0: it is not ignored. Quick where paths of one directory come one after the other. What is
 * too large to be read or matched ignores nothing. */
size_t ignored_find(struct ignored *ignored, const char *path, bool is_directory);
