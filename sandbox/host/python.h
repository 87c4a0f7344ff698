#pragma once
#include <linux/limits.h>
#include <stdbool.h>

#include "base/fail.h"
#include "sandbox/types.h"

struct box_spec;
struct python;

/* Which interpreter to use, and which host directories it needs besides /usr. Finds them without
 * running the interpreter, which would double the time to the first result; only a script (pyenv's
 * shims) is run. */

enum { PYTHON_DIRECTORIES = 8 };

struct python {
    char path[PATH_MAX]; /* what the sandbox executes */
    unsigned directory_count;
    unsigned inside_count;
    bool by_code[PYTHON_DIRECTORIES]; /* code could have named the directory */
    char user_base[PATH_MAX];         /* PYTHONUSERBASE, or empty */
    char hash_seed[16];               /* PYTHONHASHSEED of the server's environment, or "0" */
    char environment[PATH_MAX];       /* the virtual environment's directory, or empty */
    bool system_packages;             /* shows the base interpreter's packages too */
    char prefix[PATH_MAX];            /* of the standard library: PREFIX/lib/VERSION */
    char version[16];                 /* "python3.11" */
    /* Shown read-only at the same path; none is below /usr. From here on nothing is cleared. */
    char directories[PYTHON_DIRECTORIES][PATH_MAX];
    /* Those in the workspace, relative to it: read-only there too, because the server trusts files
     * in them. */
    char inside[PYTHON_DIRECTORIES][PATH_MAX];
};

/* The interpreter that spec names. The first call that finds one fixes its path for the life of the
 * process; each call resolves the path again. Refuses an interpreter that code could change:
 * neither accepted by trust.h's rule nor in workspace directories that can be made read-only.
 * Blocks only for a script, which runs once. 0 or -errno. */
int python_find(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail);

/* The same without running a script: -ENOEXEC for a script that has not run yet. */
int python_expect(const struct box_spec *spec, struct python *ret_python, struct fail *ret_fail);

/* The next call chooses again: for tests. */
void python_forget(void);

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

/* The interpreter for programs of ours outside of the sandbox: the first of /usr/bin/python3,
 * --python and PATH that is a CPython 3.9 or newer, and of which code can write neither the program
 * nor what it imports. The system's comes first: an environment may lie in a workspace of another
 * server, of which this command does not know. Blocks as python_find() does. 0, or -errno with
 * ret_fail: why the one of --python, else that of PATH, is none. */
[[nodiscard]] int box_python_outside(const struct box_spec *spec, char path[PATH_MAX],
                                     struct fail *ret_fail);
/* The same of one, as --python has it. */
[[nodiscard]] int python_outside(const struct box_spec *spec, const char *chosen,
                                 char path[PATH_MAX], struct fail *ret_fail);

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
