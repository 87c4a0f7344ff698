#pragma once
#include "cli/flags.h"

/* --mount, see flags.h and sandbox/plan/mount.h. */

void mount_take(struct options *options, const struct flag *flag, const char *value);

/* Looks the folders up, when all flags are known. What cannot be shown becomes options' trouble.
 * config: the value of --config, or NULL. */
void mount_flags_settle(struct options *options, const char *config);
