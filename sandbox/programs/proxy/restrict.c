/* What the way here has left to this process (namespaces of its own but the network's, an empty root
 * that is read-only, no capabilities, no_new_privs: plan_build_egress()) is narrowed once more before it
 * looks at a byte of the box's: no file by name at all, and only the system calls of this program. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/confine/landlock.h"
#include "sandbox/egress/broker.h"

enum { MEMORY_BYTES = 256 << 20, DESCRIPTORS = 2 * BROKER_FLOWS + EGRESS_ROWS + 16 };

static bool set_limits(void)
{
    const struct {
        int which;
        rlim_t most;
    } limits[] = {
        {RLIMIT_NOFILE, DESCRIPTORS},
        {RLIMIT_AS, MEMORY_BYTES},
        {RLIMIT_FSIZE, 0},
        {RLIMIT_NPROC, 0},
        {RLIMIT_MEMLOCK, 0},
        {RLIMIT_CORE, 1},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit now;
        if (getrlimit((__rlimit_resource_t)limits[i].which, &now) < 0) {
            return false;
        }
        rlim_t most = limits[i].most < now.rlim_max ? limits[i].most : now.rlim_max;
        if (setrlimit((__rlimit_resource_t)limits[i].which, &(struct rlimit){most, most}) < 0) {
            return false;
        }
    }
    return true;
}

bool broker_confine(const struct egress_config *config)
{
    struct sock_fprog filter = {
        .len = (unsigned short)config->filter_count,
        .filter = (struct sock_filter *)(void *)((char *)(uintptr_t)config + sizeof *config)};
    /* The mounts hold without Landlock, as in the box. */
    bool has_landlock = landlock_abi() >= LANDLOCK_ABI_LEAST;
    return set_limits() && (!has_landlock || landlock_confine(NULL, 0, /* flags= */ 0) == 0) &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}
