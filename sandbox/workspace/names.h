#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/workspace/protected.h"

/* The table behind protected.h, for the sandbox module's own use. Safe between clone and execve. */

/* Name of the git directory; its rows are found in git directories of other names too (submodules). */
#define PROTECTED_GIT ".git"

/* Whether name is the row's first component; *ret_rest: what follows it, "" for a row of one. Case-insensitive. */
bool protected_begins(unsigned row, const char *name, const char **ret_rest);

static inline bool protected_is_open(uint64_t open, unsigned row)
{
    return open & 1ULL << row;
}
