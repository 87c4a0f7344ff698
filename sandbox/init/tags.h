#pragma once
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* What a process's resource limits say of the session that it belongs to, see wire/wire.h. */
struct tags {
    rlim_t soft;
    rlim_t hard;
    rlim_t counterpart;
};

/* pid: a process or a thread. 0 or -errno: -EPERM, the kernel does not let us look */
int tags_of(pid_t pid, struct tags *ret_tags);

/* Whether two processes or threads belong to the same session, or to no session in a sandbox that has none.
 * A process can lower its limits and never raise them, so it cannot pass for one of another session:
 * setrlimit(2). */
bool tags_same(pid_t one, pid_t other);
