/* The listener of a guest's filter that asks init, on its way from the child that installs it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/packet.h"

int listener_pair(const struct init *init, int ends[2])
{
    ends[0] = -1;
    ends[1] = -1;
    return init->filter_notified.len ? fd_socketpair(SOCK_SEQPACKET, ends) : 0;
}

static bool listener_give(const struct init *init, int to_fd)
{
    const char byte = 0;
    if (init->filter_notified.len == 0) {
        return true;
    }
    int listener = notify_install(&init->filter_notified);
    if (listener < 0 && init->config->guards) {
        errno = -listener;
        return false;
    }
    /* With namespaces the sandbox holds without it; that signals are not kept apart the self-test
     * sees. */
    ssize_t sent = packet_send(to_fd, &byte, 1, &listener, listener >= 0, 0);
    own_close(&listener);
    (void)close(to_fd);
    return sent == 1;
}

/* The child is still our own program: it hands over, or ends. */
bool listener_take(struct init *init, int ends[2])
{
    char byte = 0;
    int listener = -1;
    bool served = false;
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    own_close(&ends[1]);
    if (ends[0] >= 0 && poll(&fd, 1, -1) == 1 &&
        packet_receive(ends[0], &byte, 1, &listener, 1) == 1 && listener >= 0) {
        served = notify_take(&init->notify, listener) == 0;
    }
    own_close(&ends[0]);
    return served;
}

static bool set_limit(const struct rlimit_wanted *wanted, bool nests)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)wanted->which, &now) < 0) {
        return false;
    }
    /* Only lowered, because raising would need CAP_SYS_RESOURCE. */
    struct rlimit limit = {.rlim_cur = wanted->soft, .rlim_max = wanted->hard};
    /* The zygote raises the soft limit and each of its sessions lowers both: guest/tags.py. */
    bool keeps_hard = nests && wanted->which == RLIMIT_NOFILE;
    if (limit.rlim_max > now.rlim_max || keeps_hard) {
        limit.rlim_max = now.rlim_max;
    }
    if (limit.rlim_cur > limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
    }
    return setrlimit((__rlimit_resource_t)wanted->which, &limit) == 0;
}

unsigned limits_wanted(const struct wire_config *config, struct rlimit_wanted wanted[RLIMITS_MOST])
{
    const struct rlimit_sizes sizes = {config->file_bytes, config->data_bytes, config->pids_max};
    return rlimits_wanted(&sizes, wanted);
}

static bool set_limits(const struct wire_config *config, bool nests)
{
    struct rlimit_wanted wanted[RLIMITS_MOST];
    unsigned count = limits_wanted(config, wanted);
    for (unsigned i = 0; i < count; i++) {
        if (!set_limit(&wanted[i], nests)) {
            return false;
        }
    }
    return true;
}

static bool install(const struct sock_fprog *program)
{
    return program->len == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0;
}

/* Only for a supervisor's guest, which no namespace bounds. */
static bool become_guest(const struct init *init)
{
    enum { NICE = 10 }; /* below the supervisor, which must not starve */
    const struct wire_config *config = init->config;
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    /* The death signal is requested after the change of identity, which clears it, prctl(2). */
    return setresgid(config->guest_gid, config->guest_gid, config->guest_gid) == 0 &&
           setresuid(config->guest_uid, config->guest_uid, config->guest_uid) == 0 &&
           prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == init->processes.root;
}

static bool arrange_descriptors(int control_fd, int listener_fd)
{
    if (dup2(control_fd, CONFINED_CONTROL_FD) < 0 || fcntl(CONFINED_CONTROL_FD, F_SETFD, 0) < 0 ||
        (listener_fd >= 0 && dup2(listener_fd, CONFINED_LISTENER_FD) < 0)) {
        return false;
    }
    fd_close_range(listener_fd < 0 ? CONFINED_LISTENER_FD : CONFINED_LISTENER_FD + 1, ~0U);
    return true;
}

/* With namespaces the mounts hold without Landlock, and doctor reports its absence. Where the
 * kernel has Landlock, it must work. */
static bool restrict_files(const struct init *init)
{
    if (init->config->guards) {
        return landlock_confine(init->rules, init->rule_count, LANDLOCK_NO_TCP) == 0;
    }
    return landlock_abi() < LANDLOCK_ABI_LEAST ||
           landlock_confine(init->rules, init->rule_count, /* flags= */ 0) == 0 ||
           init->config->landlock_optional;
}

/* Installed beside the filter that refuses new rulesets. */
static bool give_ruleset(const struct init *init)
{
    defer_close int fd = landlock_nested_ruleset();
    if (fd < 0) {
        return fd == -EOPNOTSUPP || init->config->landlock_optional;
    }
    return fd == CONFINED_RULESET_FD ? fcntl(take_fd(&fd), F_SETFD, 0) == 0
                                     : dup2(fd, CONFINED_RULESET_FD) == CONFINED_RULESET_FD;
}

enum wire_step confine(const struct init *init, int control_fd, int listener_fd, bool nests)
{
    sigset_t none;
    (void)sigemptyset(&none);
    if (setsid() < 0) {
        return WIRE_STEP_SESSION;
    }
    /* Of a huge page of which code keeps a part, the kernel keeps the rest until memory is short,
     * and no process's figures have it. Forks and programs inherit this, prctl(2). */
    if (init->config->watch_memory_bytes && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0 &&
        errno != EINVAL) {
        return WIRE_STEP_LIMITS;
    }
    (void)prctl(PR_SET_PDEATHSIG, 0);
    if (init->config->guards && !become_guest(init)) {
        return WIRE_STEP_IDS;
    }
    if (!arrange_descriptors(control_fd, listener_fd)) {
        return WIRE_STEP_DESCRIPTORS;
    }
    /* Ignored signals stay ignored over execve(2), but what client and server ignore must not reach
     * the guest. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    if ((nests && !give_ruleset(init)) || !restrict_files(init)) {
        return WIRE_STEP_LANDLOCK;
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* The notifying filter comes first: the later filters then refuse a call before it is notified.
     * The filter by name comes last, because it refuses seccomp(2) itself. */
    if (!listener_give(init, CONFINED_LISTENER_FD)) {
        return WIRE_STEP_LISTENER;
    }
    /* As few files as the guest may have in transit, another sandbox of this user can have there at
     * any time: with this limit, no descriptor could be sent then, unix(7). */
    if (!set_limits(init->config, nests)) {
        return WIRE_STEP_LIMITS;
    }
    if (!install(&init->filter_uncounted) || !install(&init->filter_arguments) ||
        !install(&init->filter_names)) {
        return WIRE_STEP_SECCOMP;
    }
    return WIRE_STEP_NONE;
}

/* Runs in the child. Any failed step ends it: it must never continue half-confined. The exit code
 * is the number of the step, so that the server can name it. */
__attribute__((noreturn)) static void guest_child(const struct init *init, int control_fd,
                                                  int listener_fd, bool nests)
{
    enum wire_step failed = confine(init, control_fd, listener_fd, nests);
    if (failed != WIRE_STEP_NONE) {
        _exit((int)failed);
    }
    (void)execve(init->argv[0], init->argv, init->envp);
    _exit(errno == ENOENT ? WIRE_STEP_FIND : WIRE_STEP_EXECUTE);
}

/* Makes the control socket; ends[0] is the server's. */
static int make_control(int ends[2])
{
    const int on = 1;
    int r = fd_socketpair(SOCK_STREAM, ends);
    if (r == 0) {
        /* Set before the first message, so that the kernel reports who sent it. */
        (void)setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    }
    return r;
}

/* Forks, unless r says that something has failed before. The child's pid, 0 in the child, or
 * -errno.
 */
static pid_t fork_unless(int r)
{
    pid_t pid = r < 0 ? r : fork();
    return r == 0 && pid < 0 ? -errno : pid;
}

/* Sends what belongs to a child that was started, or the error in its pid. */
static void respond_started(struct wire_reply *reply, const int *fds, size_t count)
{
    if (reply->pid < 0) {
        reply_result(reply->id, -reply->pid);
    } else {
        reply_send_fds(reply, fds, count);
    }
}

void zygote_start(struct init *init, const struct wire_request *request)
{
    defer_close_pair int ends[2] = {-1, -1};
    int listener[2] = {-1, -1};
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    int r = make_control(ends);
    r = r ? r : listener_pair(init, listener);
    reply.pid = fork_unless(r);
    if (reply.pid == 0) {
        if (chdir("/") < 0) { /* the interpreter must not start in the workspace */
            _exit(WIRE_STEP_SESSION);
        }
        guest_child(init, ends[1], listener[1], /* nests= */ true);
    }
    init->sees_writes =
        listener_take(init, listener) && init->config->asks_of_writes && !init->blind;
    reply.status = init->sees_writes;
    if (reply.pid > 0) {
        init->processes.zygote = reply.pid;
        init->guest_runs = true;
    }
    respond_started(&reply, ends, 1);
}

void keeper_start(struct init *init, const struct wire_request *request)
{
    defer_close_pair int ends[2] = {-1, -1};
    defer_close_pair int greeting[2] = {-1, -1};
    defer_close_pair int touches[2] = {-1, -1};
    /* The upper layer of an overlay reports nothing: it is written through the overlay's files. */
    defer_close int watch_fd = init->config->cow   ? -1
                               : init->sees_writes ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
                                                   : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    r = r ? r : fd_socketpair(SOCK_SEQPACKET, greeting);
    r = r || !init->sees_writes ? r : fd_socketpair(SOCK_SEQPACKET, touches);
    uint32_t *answers = touches[0] < 0
                            ? NULL
                            : mmap(NULL, NOTIFY_TOUCHES * sizeof *answers, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    r = answers == MAP_FAILED ? -errno : r;
    reply.pid = fork_unless(r);
    if (reply.pid == 0) {
        keeper_main(&(struct keeper_setup){.socket_fd = ends[1],
                                           .greet_fd = greeting[1],
                                           .touch_fd = touches[1],
                                           .answers = answers,
                                           .watch_fd = watch_fd,
                                           .output_fd = files_output_fd(),
                                           .work = init->paths.work,
                                           .cow = init->config->cow,
                                           .own = init->config->own_workspace != 0,
                                           .again = request->again != 0,
                                           .limit_bytes = init->config->undo_files_bytes});
    }
    int second = init->config->cow ? init->overlay_fd : watch_fd;
    const int theirs[] = {ends[0], greeting[0], second};
    if (reply.pid > 0) {
        init->processes.keeper = reply.pid;
    }
    if (reply.pid > 0 && touches[0] >= 0) {
        int event_fd = init->config->own_workspace ? fcntl(watch_fd, F_DUPFD_CLOEXEC, 0) : -1;
        notify_tell(&init->notify, take_fd(&touches[0]), event_fd, init->paths.work, answers);
    }
    respond_started(&reply, theirs, second < 0 ? 2 : 3);
}

/* Runs in the child. The confinement leaves 0, 1 and 2 alone. */
__attribute__((noreturn)) static void program_child(const struct init *init, int control_fd,
                                                    int log_fd, int listener_fd)
{
    if (dup2(control_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0) {
        _exit(WIRE_STEP_DESCRIPTORS);
    }
    guest_child(init, control_fd, listener_fd, /* nests= */ false);
}

void program_start(struct init *init, const struct wire_request *request)
{
    defer_close_pair int control[2] = {-1, -1};
    defer_close_pair int log[2] = {-1, -1};
    int listener[2] = {-1, -1};
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    int r = make_control(control);
    r = r ? r : listener_pair(init, listener);
    r = r ? r : fd_pipe(&log[0], &log[1]);
    reply.pid = fork_unless(r);
    if (reply.pid == 0) {
        program_child(init, control[1], log[1], listener[1]);
    }
    if (reply.pid > 0) {
        init->processes.watched[0] =
            (struct watched){.pid = reply.pid, .tag = WIRE_TAG_ZYGOTE, .role = WIRE_ROLE_SESSION};
        init->guest_runs = true;
    }
    respond_started(&reply, (const int[]){control[0], log[0]}, 2);
    (void)listener_take(init, listener);
}
