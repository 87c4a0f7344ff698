#pragma once

/* System calls by name. Filters skip names that the architecture or libseccomp does not know. */

extern const char *const syscalls_allowed[];
/* Calls by programs that handle a refusal: EPERM instead of ENOSYS. */
extern const char *const syscalls_refused[];
/* The same with EINVAL, as for descriptors of another kind. */
extern const char *const syscalls_unsuited[];
/* Allowed only to init. */
extern const char *const syscalls_init[];
/* All calls of the egress proxy except socket(2), whose arguments are checked. */
extern const char *const syscalls_proxy[];
/* All calls of the applying process. */
extern const char *const syscalls_apply[];
