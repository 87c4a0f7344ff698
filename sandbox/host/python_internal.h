#pragma once
#include <stdbool.h>

#include "base/fail.h"

/* For python.c. */

struct box_spec;
struct python;

/* dir/name into out (PATH_MAX bytes). Returns false when it does not fit. */
bool python_join(char *out, const char *dir, const char *name);

/* --- python_trust.c --- */

/* Refuses a name of the interpreter that code could change. Names in a directory that the plan
 * makes read-only are safe. */
[[nodiscard]] int python_check_name(const struct box_spec *spec, const char *path,
                                    bool in_directory, struct fail *ret_fail);

/* The same for what may be loaded from the interpreter's directories. */
[[nodiscard]] int python_check_directories(struct python *python, const struct box_spec *spec,
                                           struct fail *ret_fail);

/* Whether code could have made the name path, or what lies beside it. */
bool python_is_named_by_code(const struct box_spec *spec, const char *path);

/* --- python_shim.c: scripts that stand for an interpreter on the PATH, such as those of asdf and
 * pyenv: which one it is depends on files that the script searches for --- */

bool shim_is_script(const char *path);

/* Runs the script on the host to learn which interpreter it stands for, and writes that to path
 * (PATH_MAX bytes). The script starts in the root directory, so it uses the user's own settings and
 * not the files of a project; its only variables are HOME, the trusted part of PATH, and the
 * directories of asdf and pyenv. Before anything runs, refuses where code could change the script,
 * what executes it, its settings, or the interpreter that it names. Blocks up to ten seconds. 0 or
 * -errno */
[[nodiscard]] int shim_ask(const struct box_spec *spec, char *path, struct fail *ret_fail);
