#pragma once
#include "base/embed.h"

/* The Python files of this room, to be placed in one folder inside the sandbox; ends with a zero row.
 * `driver.py` is the one to start, it finds the others beside it. */
extern const struct embedded guest_catalog[];

/* The files of guest/installer, likewise; `installer.py` is the one to start. docs/PACKAGES.md has its
 * requests and replies. */
extern const struct embedded installer_catalog[];
