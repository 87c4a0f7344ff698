/* The child between clone and execve. Reads like the plan: one function for each step, run in the
 * plan's order. The first failure is reported as one struct fail and ends the process. No heap, no
 * stdio but snprintf, no logging. The child still has the server's memory, so no guest runs yet.
 * The steps that build the root are in child_root.c. */
#include "sandbox/launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/launch/child_internal.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"

/* Closes all descriptors that the child does not need. Among them are the server's ends of the
 * child's own pipes: while the child has them open, it would not notice when the server exits. */
static void child_keep_own(const struct child_setup *setup)
{
    int kept[5 + CGROUP_DIRECTORIES + PLAN_TREES] = {setup->go_fd, setup->error_fd, setup->init_fd,
                                                     setup->config_fd, setup->program_fd};
    unsigned count = 5;
    int last = 2;
    for (unsigned i = 0; setup->tasks && i < CGROUP_DIRECTORIES; i++) {
        kept[count++] = setup->tasks[i];
    }
    for (unsigned i = 0; setup->taken && i < PLAN_TREES; i++) {
        kept[count++] = setup->taken[i];
    }
    for (;;) {
        int next = -1; /* the lowest kept descriptor above last */
        for (unsigned i = 0; i < count; i++) {
            if (kept[i] > last && (next < 0 || kept[i] < next)) {
                next = kept[i];
            }
        }
        if (next < 0) {
            fd_close_range((unsigned)last + 1, ~0U);
            return;
        }
        if (next > last + 1) {
            fd_close_range((unsigned)last + 1, (unsigned)next - 1);
        }
        last = next;
    }
}

enum { CHILD_ERROR_FD = WIRE_FD_COUNT, CHILD_PROGRAM_FD, CHILD_FIRST_TO_CLOSE };

static int step_identity(struct child *, const struct plan_step *)
{
    /* Keeps capabilities over the change of ids, because the following steps need them. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP) < 0) {
        return -1;
    }
    if (setresgid(PLAN_INSIDE_ID, PLAN_INSIDE_ID, PLAN_INSIDE_ID) < 0 ||
        setresuid(PLAN_INSIDE_ID, PLAN_INSIDE_ID, PLAN_INSIDE_ID) < 0) {
        return -1;
    }
    /* A process that changes its ids is not dumpable, and root owns its files in /proc, proc(5):
     * the limits below could not be written. No guest exists yet; init switches it off. */
    return prctl(PR_SET_DUMPABLE, 1);
}

static int step_loopback(struct child *, const struct plan_step *)
{
    defer_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (fd < 0) {
        return -1;
    }
    sysctls_bound_sockets();
    return ioctl(fd, SIOCSIFFLAGS, &request);
}

/* Moves the descriptors above the numbers where init expects them first, then there. */
static int step_descriptors(struct child *child, const struct plan_step *)
{
    enum { COUNT = 12 };
    const struct child_setup *setup = child->setup;
    const int from[COUNT] = {
        setup->init_fd,         setup->config_fd,       setup->error_fd,
        setup->program_fd,      child->output_fd,       child->layers.upper_fd,
        child->layers.lower_fd, child->layers.store_fd, child->layers.overlay_fd,
        child->files_fd,        child->machine_fd,      child->memory_fd};
    const int to[COUNT] = {WIRE_INIT_FD,    WIRE_CONFIG_FD, CHILD_ERROR_FD,  CHILD_PROGRAM_FD,
                           WIRE_OUTPUT_FD,  WIRE_UPPER_FD,  WIRE_LOWER_FD,   WIRE_STORE_FD,
                           WIRE_OVERLAY_FD, WIRE_FILES_FD,  WIRE_MACHINE_FD, WIRE_MEMORY_FD};
    int parked[COUNT];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (unsigned i = 0; i < COUNT; i++) {
        parked[i] = fcntl(from[i] < 0 ? null : from[i], F_DUPFD_CLOEXEC, CHILD_FIRST_TO_CLOSE);
        if (parked[i] < 0) {
            return -1;
        }
    }
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) {
        return -1;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        int flags = to[i] >= CHILD_ERROR_FD || from[i] < 0 ? O_CLOEXEC : 0;
        if (dup3(parked[i], to[i], flags) < 0) {
            return -1;
        }
    }
    fd_close_range(CHILD_FIRST_TO_CLOSE, ~0U);
    return 0;
}

static int step_capabilities(struct child *child, const struct plan_step *)
{
    cap_value_t cap = 0;
    while (cap_drop_bound(cap) == 0) {
        cap++;
    }
    if (errno != EINVAL || cap == 0 || /* the kernel has no such capability */
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                     SECBIT_NO_CAP_AMBIENT_RAISE |
                                     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED) < 0 ||
        cap_set_proc(child->setup->no_capabilities) < 0) {
        return -1;
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_death_signal(struct child *, const struct plan_step *)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return -1;
    }
    /* The server may have exited before the signal was requested; then its end is closed. */
    struct pollfd fd = {.fd = WIRE_INIT_FD, .events = 0};
    if (poll(&fd, 1, 0) == 1) {
        errno = EPIPE;
        return -1;
    }
    return 0;
}

static int step_seccomp(struct child *child, const struct plan_step *)
{
    const struct plan *plan = child->setup->plan;
    struct sock_fprog program = {.len = (unsigned short)plan->filter_init.count,
                                 .filter = plan->filter_init.program};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* What code makes in the user's directory is for a group that the user shares it with. */
static int step_execute(struct child *child, const struct plan_step *step)
{
    (void)umask((child->umask & S_IWGRP) | S_IWOTH);
    const char *const argv[] = {step->source ? step->source : "sandpiper-init", NULL};
    static const char *const envp[] = {NULL};
    return (int)syscall(SYS_execveat, CHILD_PROGRAM_FD, "", argv, envp, AT_EMPTY_PATH);
}

void child_leave_memory_out_of_cores(void)
{
    (void)fd_write_text_at(AT_FDCWD, "/proc/self/coredump_filter", "0");
}

/* Also gives the process a keyring of its own. It would inherit the login session's, which holds
 * keys of the user's file systems and tickets, session-keyring(7). Where the kernel or a
 * container's filter has no keyctl(2), or the user's key quota is used up, the guest's filter still
 * refuses the call. */
static int step_session(struct child *child, const struct plan_step *)
{
    enum { JOIN_SESSION_KEYRING = 1 };
    child->umask = umask(022);
    child_leave_memory_out_of_cores();
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS &&
        errno != EPERM && errno != EACCES && errno != EDQUOT) {
        return -1;
    }
    return setsid() < 0 ? -1 : 0;
}

static int step_hostname(struct child *, const struct plan_step *step)
{
    int r = sethostname(step->source, strlen(step->source));
    return r < 0 && !(step->optional && errno == EPERM) ? -1 : 0;
}

static int step_group(struct child *child, const struct plan_step *)
{
    char go = 0;
    struct pollfd fd = {.fd = child->setup->go_fd, .events = POLLIN};
    if (poll(&fd, 1, -1) != 1 || packet_receive(fd.fd, &go, 1, &child->memory_fd, 1) != 1) {
        errno = EPIPE; /* the server has given up or exited */
        return -1;
    }
    const int *tasks = child->setup->tasks;
    for (unsigned i = 0; tasks && i < CGROUP_DIRECTORIES; i++) {
        if (tasks[i] >= 0 && write(tasks[i], "0", 1) != 1) {
            return -1;
        }
    }
    return 0;
}

static int step_cgroup_namespace(struct child *, const struct plan_step *)
{
    return unshare(CLONE_NEWCGROUP);
}

static int step_subreaper(struct child *, const struct plan_step *)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Without a user namespace an ordinary user's process may lack the right to drop capabilities.
 * Those that stay in the bounding set are useless without a way to gain privileges. */
static int step_step_down(struct child *child, const struct plan_step *step)
{
    for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++) {
        (void)cap_drop_bound(cap);
    }
    (void)prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED);
    bool other = step->uid != geteuid() || step->supervisor != step->uid;
    if (other && (setgroups(0, NULL) < 0 || setresgid(step->gid, step->gid, step->gid) < 0 ||
                  setresuid(step->supervisor, step->uid, step->supervisor) < 0)) {
        return -1;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        cap_set_proc(child->setup->no_capabilities) < 0) {
        return -1;
    }
    /* The supervisor keeps two ids: its own, and the guest's to assign. Older kernels (Linux 6.12
     * for one) take that for a set-user-ID program, and under no_new_privs execve(2) keeps only one
     * of them: cap_bprm_creds_from_file() in security/commoncap.c. So the supervisor's program sets
     * it (init/main.c). */
    return step->supervisor != step->uid ? 0 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int step_enter(struct child *, const struct plan_step *step)
{
    return chdir(step->target);
}

static const child_step_fn step_fns[PLAN_KIND_COUNT] = {
    [PLAN_CGROUP_NAMESPACE] = step_cgroup_namespace,
    [PLAN_IDENTITY] = step_identity,
    [PLAN_SESSION] = step_session,
    [PLAN_HOSTNAME] = step_hostname,
    [PLAN_LOOPBACK] = step_loopback,
    [PLAN_NO_NAMESPACES] = sysctls_bound_user,
    [PLAN_DESCRIPTORS] = step_descriptors,
    [PLAN_CAPABILITIES] = step_capabilities,
    [PLAN_DEATH_SIGNAL] = step_death_signal,
    [PLAN_SECCOMP] = step_seccomp,
    [PLAN_GROUP] = step_group,
    [PLAN_SUBREAPER] = step_subreaper,
    [PLAN_STEP_DOWN] = step_step_down,
    [PLAN_ENTER] = step_enter,
    [PLAN_EXECUTE] = step_execute,
};

void child_main(const struct child_setup *setup)
{
    struct child child = {.setup = setup,
                          .machine_fd = -1,
                          .memory_fd = -1,
                          .output_fd = -1,
                          .layers = {-1, -1, -1, -1}};
    struct fail fail = {};
    int error_fd = setup->error_fd;
    char go = 0;
    child_keep_own(setup);
    child.files_fd = setup->counts_files ? open("/proc/sys/fs/file-nr", O_RDONLY | O_CLOEXEC) : -1;
    if (read(setup->go_fd, &go, 1) != 1) {
        _exit(1); /* the server has given up or exited */
    }
    for (unsigned i = 0; i < setup->plan->step_count; i++) {
        const struct plan_step *step = &setup->plan->steps[i];
        child_step_fn step_fn = step_fns[step->kind];
        step_fn = step_fn ? step_fn : child_root_steps[step->kind];
        if (step_fn(&child, step) < 0) {
            const char *object = step->target ? step->target : step->source;
            (void)fail_set(&fail, errno, "%s%s%s", plan_kind_name(step->kind), object ? " " : "",
                           object ? object : "");
            fail.step = i + 1;
            (void)write(error_fd, &fail, sizeof fail);
            _exit(1);
        }
        if (step->kind == PLAN_DESCRIPTORS) {
            error_fd = CHILD_ERROR_FD;
        }
    }
    _exit(1);
}
