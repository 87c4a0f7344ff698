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
    bool by_code[PYTHON_FOLDERS]; /* code could have named it */
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

/* What spec names. Which path that is gets settled by the first call that finds one, for the life of the
 * process; where it leads is looked up each time. An interpreter that cannot be kept from code, by trust.h's rule
 * or by making its folders in the workspace read-only, is refused. Blocks only for a script, which is asked once.
 * 0 or -errno. */
int python_find(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail);

/* The same without running a script: -ENOEXEC where there is one that has not been asked. */
int python_expect(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail);

/* Chooses anew at the next call: for tests. */
void python_forget(void);
