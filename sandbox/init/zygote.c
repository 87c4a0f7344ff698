#include "sandbox/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/landlock.h"

enum { ZYGOTE_CONTROL_FD = 3, ZYGOTE_FILES = 512 };

static bool set_limit(__rlimit_resource_t which, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(which, &now) < 0) {
        return false;
    }
    /* Only ever lowered: raising would need CAP_SYS_RESOURCE. */
    if (value > now.rlim_max) {
        value = now.rlim_max;
    }
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    return setrlimit(which, &limit) == 0;
}

static bool zygote_limits(const struct wire_config *config)
{
    /* CORE 1, not 0: where core_pattern is a pipe, 0 still starts the helper on the host, core(5).
     * NPROC counts within this user namespace since Linux 5.14, setrlimit(2). NOFILE also bounds the
     * descriptors that wait in sockets, unix(7), and those are counted for the user outside: at the
     * usual 1024 the guest could use up what the server itself and other programs of the user may
     * send; they start to fail at their own limit, which is higher than this one. */
    return set_limit(RLIMIT_CORE, 1) && set_limit(RLIMIT_NOFILE, ZYGOTE_FILES) &&
           set_limit(RLIMIT_FSIZE, config->file_bytes) && set_limit(RLIMIT_MEMLOCK, 65536) &&
           set_limit(RLIMIT_MSGQUEUE, WIRE_TAG_ZYGOTE) && set_limit(RLIMIT_SIGPENDING, 1024) &&
           set_limit(RLIMIT_NICE, 0) && set_limit(RLIMIT_RTPRIO, 0) &&
           (config->pids_max == 0 || set_limit(RLIMIT_NPROC, config->pids_max));
}

static bool install(const struct sock_fprog *program)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0;
}

/* In the child. Any step that does not work ends it: never go on half-confined. The exit code is
 * the number of the step, so that the server can name it. */
__attribute__((noreturn)) static void zygote_child(const struct init *init, int control_fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    if (setsid() < 0) {
        _exit(101);
    }
    if (!zygote_limits(init->config)) {
        _exit(102);
    }
    if (dup2(control_fd, ZYGOTE_CONTROL_FD) < 0 || fcntl(ZYGOTE_CONTROL_FD, F_SETFD, 0) < 0) {
        _exit(103);
    }
    fd_close_range(ZYGOTE_CONTROL_FD + 1, ~0U);
    (void)prctl(PR_SET_PDEATHSIG, 0);
    /* Ignored signals stay ignored over execve(2): what the host and the server ignore is not for
     * the guest. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    /* The mounts hold without it: where there is no Landlock, doctor says so. Where there is, it holds. */
    if (landlock_abi() >= LANDLOCK_ABI_LEAST && landlock_confine() < 0) {
        _exit(107);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Arguments before names: the second filter refuses seccomp(2) itself. */
    if (!install(&init->filter_arguments) || !install(&init->filter_names)) {
        _exit(104);
    }
    (void)execve(init->argv[0], init->argv, init->envp);
    _exit(errno == ENOENT ? 106 : 105);
}

pid_t zygote_start(struct init *init, int control_fd)
{
    pid_t pid = fork();
    if (pid < 0) {
        return -errno;
    }
    if (pid == 0) {
        zygote_child(init, control_fd);
    }
    return pid;
}
