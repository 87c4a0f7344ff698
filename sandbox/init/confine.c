#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/init/init.h"
#include "sandbox/landlock.h"
#include "sandbox/rlimits.h"

static bool set_limit(const struct rlimit_wanted *wanted)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)wanted->which, &now) < 0) {
        return false;
    }
    /* Only ever lowered: raising would need CAP_SYS_RESOURCE. */
    struct rlimit limit = {.rlim_cur = wanted->soft, .rlim_max = wanted->hard};
    if (limit.rlim_max > now.rlim_max) {
        limit.rlim_max = now.rlim_max;
    }
    if (limit.rlim_cur > limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
    }
    return setrlimit((__rlimit_resource_t)wanted->which, &limit) == 0;
}

static bool set_limits(const struct wire_config *config)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = rlimits_wanted(config->file_bytes, config->pids_max, wanted);
    for (unsigned i = 0; i < count; i++) {
        if (!set_limit(&wanted[i])) {
            return false;
        }
    }
    return true;
}

static bool install(const struct sock_fprog *program)
{
    return program->len == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0;
}

enum wire_step confine(const struct init *init, int control_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    if (setsid() < 0) {
        return WIRE_STEP_SESSION;
    }
    if (!set_limits(init->config)) {
        return WIRE_STEP_LIMITS;
    }
    if (dup2(control_fd, CONFINED_CONTROL_FD) < 0 || fcntl(CONFINED_CONTROL_FD, F_SETFD, 0) < 0) {
        return WIRE_STEP_DESCRIPTORS;
    }
    fd_close_range(CONFINED_CONTROL_FD + 1, ~0U);
    (void)prctl(PR_SET_PDEATHSIG, 0);
    /* Ignored signals stay ignored over execve(2): what the host and the server ignore is not for
     * the guest. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    /* The mounts hold without it: where there is no Landlock, doctor says so. Where there is, it holds. */
    if (landlock_abi() >= LANDLOCK_ABI_LEAST &&
        landlock_confine(init->rules, init->rule_count) < 0 && !init->config->landlock_optional) {
        return WIRE_STEP_LANDLOCK;
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Names at last: that filter refuses seccomp(2) itself. */
    if (!install(&init->filter_uncounted) || !install(&init->filter_arguments) ||
        !install(&init->filter_names)) {
        return WIRE_STEP_SECCOMP;
    }
    return WIRE_STEP_NONE;
}
