#pragma once
#include "cli/flags.h"

/* --mount, see flags.h and sandbox/host/mounts.h. */

void mount_take(struct options *options, const struct flag *flag, const char *value);

/* Resolves the directories, once all flags are known. One that cannot be mounted becomes options'
 * error. config: the value of --config, or NULL. */
void mount_flags_resolve(struct options *options, const char *config);
