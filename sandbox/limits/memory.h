#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/types.h"

/* The default memory limit: a quarter of the memory of a machine, or of the container or service
 * that encloses the server, if that has less; at least 1 GiB, at most 8 GiB, and a multiple of 256
 * MiB, so that it does not depend on what the kernel keeps for itself. enclosing_bytes: 0: none. */
uint64_t box_memory_default(uint64_t machine_bytes, uint64_t enclosing_bytes);

/* Decides the memory limit, once for all that enforce or report it: the default unless the user has
 * given one. Sets spec's memory_enclosing to the limit of the server's cgroups, and reduces the
 * memory limit to at most three quarters of that: at the enclosing limit the kernel may kill
 * everything in the cgroup, including the server (memory.oom.group, cgroups(7)). */
void box_memory_fit(struct box_spec *spec, bool is_given);
