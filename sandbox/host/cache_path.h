#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/types.h"

/* The package directories of all servers. */

/* The package directory's path, whether it exists or not. 0 or -errno */
int cache_path(const struct box_spec *spec, char path[PATH_MAX], struct fail *ret_fail);

/* The same in two parts, by the user's setting or the environment's: a parent directory, which need
 * not exist yet, and the name in it. 0 or -errno, with ret_fail */
int cache_place(const struct box_spec *spec, char parent[PATH_MAX], const char **ret_name,
                struct fail *ret_fail);

/* Mode of a directory that the server makes there. */
mode_t cache_mode(const struct box_spec *spec);
