#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What a process's resource limits reveal of the session that it belongs to, see
 * protocol/init_protocol.h. */
struct tags {
    rlim_t soft;
    rlim_t hard;
    rlim_t counterpart;
    rlim_t cell; /* that started it; 0: none */
};

/* pid: a process or a thread. 0 or -errno; -EPERM: the kernel does not let us look */
int tags_of(pid_t pid, struct tags *ret_tags);

/* The tag of the session or branch, as messages have it; 0: the limits do not add up. */
uint32_t tags_id(const struct tags *tags);
/* The same of a process; 0 also where its limits cannot be read. */
uint32_t tags_id_of(pid_t pid);

/* Whether two processes or threads belong to the same session or branch, or to no session in a
 * sandbox that has none. A process can lower its limits and never raise them, so it cannot pose as
 * one of another session: setrlimit(2). */
bool tags_same(pid_t one, pid_t other);
