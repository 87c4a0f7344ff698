#pragma once
#include "base/embed.h"

/* The Python files of this module, for one directory in the sandbox; ends with a zero row.
 * `driver.py` is the one to start, and finds the others beside it. */
extern const struct embedded guest_catalog[];

/* The files of guest/installer, in the same form; `installer.py` is the one to start.
 * docs/INSTALLER.md has its requests and replies. */
extern const struct embedded installer_catalog[];

/* The statuses with which the files end a process, apart from 0 and 1. The server acts only on
 * convert.py's: code can exit with any. tests/lint/exit_codes.py compares them with the Python.
 */
enum guest_exit {
    GUEST_EXIT_NO_LIBRARY = 3, /* convert.py: no Pillow can be imported */
    GUEST_EXIT_FAILED = 96,    /* a session could not start */
    GUEST_EXIT_CUT_OFF = 97,   /* a session whose code has closed the control socket */
};
