#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

/* Takes the settings of a configuration file: lines of "name = value" with the names of the flags,
 * "yes" or "no" for flags without a value, comments after "#" at the beginning of a line. The first
 * mistake becomes options' error, with file and line. path: NULL for the usual place, which may be
 * empty: $XDG_CONFIG_HOME/sandpiper/config, else $HOME/.config/sandpiper/config. */
void config_file_read(struct options *options, const char *path);

/* That place. False: there is none. */
bool config_file_place(char *path, size_t size);
