#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/workspace/protected.h"

/* The table behind protected.h, for sandbox/ only. Safe between clone and execve. */

/* The git directory. Its rows are also found in git directories with other names (submodules). */
#define PROTECTED_GIT ".git"

/* Row i of the whole table: a path such as "hooks/x", with at most one star in a component; NULL
 * after the last. Its first part is box_protected_name(). */
const char *protected_name(unsigned i);
/* The rows of a git repository without .git; NULL ends them. */
extern const char *const protected_bare[];

/* Whether name is the row's first component; *ret_rest: the rest of the row, "" if it has one
 * component. Case-insensitive. */
bool protected_begins(unsigned row, const char *name, const char **ret_rest);

static inline bool protected_is_open(uint64_t open, unsigned row)
{
    return open & 1ULL << row;
}
