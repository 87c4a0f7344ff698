#pragma once
#include <stdbool.h>

/* Marks a cgroup, an open directory, as a living server's until fd is closed. */
void cgroup_hold(int fd);

/* Finds cgroups in a parent whose server was killed together with its cleanup helper, and removes
 * them on request. Only empty ones can be removed. Returns how many there were. */
unsigned cgroup_sweep_stale(int parent_fd, bool remove);
