#pragma once
#include <linux/limits.h>
#include <stdbool.h>

#include "base/fail.h"

/* Which interpreter, and which host folders it needs besides /usr. Found without running it,
 * because that would double the time to the first result; only a script (pyenv's shims) is asked. */

struct box_spec;

enum { PYTHON_FOLDERS = 8 };

struct python {
    char path[PATH_MAX];                    /* what the box executes */
    char folders[PYTHON_FOLDERS][PATH_MAX]; /* read-only, at the same place; none is below /usr */
    unsigned folder_count;
    char inside[PYTHON_FOLDERS]
               [PATH_MAX]; /* those in the workspace, from there: they are to be read-only
                                              there too, for what the server reads of them is trusted */
    unsigned inside_count;
    char user_base[PATH_MAX];   /* PYTHONUSERBASE, or empty */
    char environment[PATH_MAX]; /* the virtual environment's folder, or empty */
    bool system_packages;       /* it shows those of the interpreter that it stands on too */
    char prefix[PATH_MAX];      /* of the standard library: PREFIX/lib/VERSION */
    char version[16];           /* "python3.11" */
};

/* chosen: --python, or NULL. workspace: NULL, or where hostile code writes: nothing of it is run, and an
 * interpreter that cannot be kept from such code is refused. Blocks only for a script. 0 or -errno. */
int python_find(const char *chosen, const char *workspace, struct python *ret_python,
                struct fail *ret_fail);

/* The same without running a script: -ENOEXEC where there is one. */
int python_expect(const char *chosen, const char *workspace, struct python *ret_python,
                  struct fail *ret_fail);

/* Refuses an interpreter that lies where code could replace it: where --mount lets it write, and in a box
 * without mounts (spec->room) in the workspace. python: what was found for spec. 0 or -EPERM */
int python_judge_place(const struct box_spec *spec, const struct python *python,
                       struct fail *ret_fail);
