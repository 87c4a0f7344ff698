#pragma once
#include <linux/limits.h>

#include "sandbox/types.h"

enum { BOX_PYTHON_PACKAGES = 320 };

/* What is known of the interpreter without running it. */
struct box_python {
    char version[8]; /* "3.11"; empty: unknown, a script may choose among several */
    /* Well-known packages that are installed, best known first: "numpy 1.26.4, pandas 2.1.0". */
    char packages[BOX_PYTHON_PACKAGES];
    bool has_pip;          /* its own, or a wheel of it: packages can be installed */
    char error[FAIL_TEXT]; /* why there is no such interpreter; empty: there is, or a script chooses
                            */
};

/* Reads some directories: for the first response to a client. */
void box_python_look(const struct box_spec *spec, struct box_python *ret_python);

/* The interpreter for programs of ours outside of the sandbox: the first of --python,
 * /usr/bin/python3 and PATH that is a CPython 3.9 or newer, and of which code can write neither the
 * program nor what it imports. Blocks as python_find() does. 0, or -errno with ret_fail: why the
 * one of --python, else that of PATH, is none. */
[[nodiscard]] int box_python_outside(const struct box_spec *spec, char path[PATH_MAX],
                                     struct fail *ret_fail);
