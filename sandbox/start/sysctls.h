#pragma once

/* Bounds what the sockets of the caller's network namespace can hold, as far as this kernel lets it. Needs /proc and
 * the capabilities of that namespace. */
void sysctls_bound_sockets(void);
