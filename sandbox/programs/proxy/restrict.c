/* Before it reads a byte from the sandbox, this process drops what the plan has left to it
 * (namespaces of its own but for the network's, an empty read-only root, no capabilities,
 * no_new_privs: plan_build_egress()). It can then open no file by name, and make only the system
 * calls of this program. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/policy/landlock.h"
#include "sandbox/programs/proxy/proxy.h"

enum { MEMORY_BYTES = 256 << 20, DESCRIPTORS = 2 * PROXY_FLOWS + EGRESS_ROWS + 16 };

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

bool proxy_confine(const struct egress_config *config)
{
    struct sock_fprog filter = {
        .len = (unsigned short)config->filter_count,
        .filter = (struct sock_filter *)(void *)((char *)(uintptr_t)config + sizeof *config)};
    /* The mounts hold without Landlock, as in the sandbox. */
    bool has_landlock = landlock_abi() >= LANDLOCK_ABI_LEAST;
    return set_limits() && (!has_landlock || landlock_confine(NULL, 0, /* flags= */ 0) == 0) &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0;
}
