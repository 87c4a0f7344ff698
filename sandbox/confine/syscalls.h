#pragma once

/* System calls by name. Names that an architecture or libseccomp does not know are passed over. */

extern const char *const syscalls_allowed[];
/* Asked for knowingly by programs that can take a "no": EPERM instead of ENOSYS. */
extern const char *const syscalls_refused[];
/* Allowed to pid 1 on top. */
extern const char *const syscalls_init[];
/* All that the egress broker calls but socket(2), whose arguments are judged. */
extern const char *const syscalls_broker[];
