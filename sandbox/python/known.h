#pragma once
#include <stdbool.h>

#include "base/fail.h"

/* Directories that are shown as an interpreter's. */

struct box_spec;

/* Refuses what is more than an interpreter, whoever has named it: the root directory, a home directory and what
 * one lies in. 0 or -EPERM with a sentence. */
[[nodiscard]] int known_check_size(const char *directory, struct fail *ret_fail);

/* Whether directory, which code could have named, is an interpreter's by other means than code's word: one of the
 * system, of the trusted part of PATH, of a known tool's versions, or conda's. Reads no file of code's. */
bool known_is_prefix(const struct box_spec *spec, const char *directory);
