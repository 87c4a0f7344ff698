#pragma once
#include <stdbool.h>

#include "base/fail.h"

struct box_spec;

/* Scripts that stand for an interpreter on the PATH, as those of asdf and pyenv do: which one it is depends on
 * files that they look for. */

bool shim_is_script(const char *path);

/* Runs the script on the host to learn which interpreter is behind it: path (PATH_MAX bytes) becomes that. It
 * is started from the root directory, so that it goes by the user's own settings and not by files of the current
 * directory, with HOME, the trusted part of PATH and the directories of asdf and pyenv as its only variables.
 * Before any code runs: refuses where code could change the script, what executes it, its settings, or the
 * interpreter that it names. Blocks up to ten seconds. 0 or -errno */
[[nodiscard]] int shim_ask(const struct box_spec *spec, char *path, struct fail *ret_fail);
