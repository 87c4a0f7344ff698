#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/confine/abi.h"
#include "sandbox/start/program.h"
#include "sandbox/start/sweeper.h"

/* The static program of sandbox/init, linked in as it is (build-aux/embed_program.py). */
extern const unsigned char init_image_start[];
extern const unsigned char init_image_end[];

int program_make(const char *name, const unsigned char *bytes, size_t size, struct fail *ret_fail)
{
    /* Sealed against writing: CVE-2019-5736 was a guest that wrote to the program that ran it. */
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (made < 0 && errno == EINVAL) { /* before Linux 6.3 */
        made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (made < 0) {
        return fail_set(ret_fail, errno, "memfd for %s (sysctl vm.memfd_noexec must be below 2)",
                        name);
    }
    int r = fd_write_all(made, bytes, size);
    if (r == 0 && fcntl(made, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
        r = -errno;
    }
    if (r < 0) {
        (void)close(made);
        return fail_set(ret_fail, -r, "memfd for %s", name);
    }
    return made;
}

int program_fd(struct fail *ret_fail)
{
    static int fd = -1;
    if (fd < 0) {
        fd = program_make("sandpiper-init", init_image_start,
                          (size_t)(init_image_end - init_image_start), ret_fail);
    }
    return fd;
}

enum { COMPANION_PIPE = 3, COMPANION_FIRST = 4, COMPANION_FDS = 4, COMPANION_PARKED = 200 };

__attribute__((noreturn)) static void companion_child(const char *const argv[], int program,
                                                      const int *fds, unsigned count)
{
    static const char *const envp[] = {NULL};
    int parked[1 + COMPANION_FDS];
    /* Not in the host's process group: a kill of that must not reach it. */
    (void)setsid();
    int null = open("/dev/null", O_RDWR);
    int parked_program = fcntl(program, F_DUPFD_CLOEXEC, COMPANION_PARKED);
    for (unsigned i = 0; i < count; i++) {
        parked[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, COMPANION_PARKED);
    }
    if (null < 0 || parked_program < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0) {
        _exit(1);
    }
    for (unsigned i = 0; i < count; i++) {
        if (dup2(parked[i], COMPANION_PIPE + (int)i) < 0) {
            _exit(1);
        }
    }
    fd_close_range(COMPANION_PIPE + count, COMPANION_PARKED - 1);
    (void)syscall(SYS_execveat, parked_program, "", argv, envp, AT_EMPTY_PATH);
    _exit(1);
}

/* Starts the program once more, with fds at COMPANION_PIPE …. Returns its pid, or -errno. */
static pid_t companion_spawn(const char *const argv[], const int *fds, unsigned count)
{
    struct fail fail = {};
    int program = program_fd(&fail);
    if (program < 0) {
        return program;
    }
    pid_t pid = fork();
    if (pid == 0) {
        companion_child(argv, program, fds, count);
    }
    return pid < 0 ? -errno : pid;
}

/* One that outlives the server, to clean up behind it: with folders at COMPANION_FIRST …, and the read end
 * of a pipe at COMPANION_PIPE, whose end means that the server is gone. Returns its pid, or -errno. */
static pid_t companion_start(const char *const argv[], const int *folders, unsigned count,
                             int *ret_pipe)
{
    int pipe_fds[2];
    int fds[1 + COMPANION_FDS];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return -errno;
    }
    fds[0] = pipe_fds[0];
    memcpy(fds + 1, folders, count * sizeof *fds);
    pid_t pid = companion_spawn(argv, fds, 1 + count);
    (void)close(pipe_fds[0]);
    if (pid < 0) {
        (void)close(pipe_fds[1]);
        return pid;
    }
    *ret_pipe = pipe_fds[1];
    return pid;
}

void reaper_start(struct box *box)
{
    char count[16];
    const char *const argv[] = {"sandpiper-reaper", box->cgroup.name, count, NULL};
    _Static_assert((int)CGROUP_FOLDERS <= (int)COMPANION_FDS, "a reaper can take all folders");
    box->reaper_fd = -1;
    if (box->cgroup.folder_count == 0) {
        return;
    }
    (void)snprintf(count, sizeof count, "%u", box->cgroup.folder_count);
    box->reaper_pid =
        companion_start(argv, box->cgroup.parent_fds, box->cgroup.folder_count, &box->reaper_fd);
    if (box->reaper_pid < 0) {
        log_warn("sandbox", "no reaper: a killed server would leave its control group");
    }
}

void reaper_stop(struct box *box)
{
    if (box->reaper_fd >= 0) {
        (void)kill(box->reaper_pid, SIGKILL);
        (void)waitpid(box->reaper_pid, NULL, 0);
        drop_fd(&box->reaper_fd);
    }
}

static int lookout_spawn(struct box *box)
{
    char number[16];
    char limit[24];
    const char *const argv[] = {"sandpiper-lookout", number, limit, NULL};
    bool counted = cgroup_has(&box->cgroup, CGROUP_MEMORY);
    int ends[2];
    (void)snprintf(number, sizeof number, "%d", (int)box->pid);
    (void)snprintf(limit, sizeof limit, "%llu",
                   counted ? 0ULL : (unsigned long long)box->spec->limits.memory_bytes);
    int r = fd_socketpair(SOCK_SEQPACKET, ends);
    if (r < 0) {
        return r;
    }
    pid_t pid = companion_spawn(argv, &ends[1], 1);
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return pid;
    }
    box->lookout_pid = pid;
    return link_start(&box->lookout, box, ends[0]);
}

int lookout_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request zygote = {
        .op = WIRE_WATCH, .role = WIRE_ROLE_ZYGOTE, .pid = box->errand ? 0 : box->guest_pid};
    int r = box->lookout.fd < 0 ? lookout_spawn(box) : 0;
    r = r ? r : link_tell_lookout(box, &zygote);
    return r < 0 ? fail_set(ret_fail, -r, "the process that watches the sandbox's memory") : 0;
}

void lookout_stop(struct box *box)
{
    if (box->lookout_pid > 0) {
        (void)kill(box->lookout_pid, SIGKILL);
        (void)waitpid(box->lookout_pid, NULL, 0);
        box->lookout_pid = 0;
    }
}

int sweeper_start(struct sweeper *sweeper, int parent_fd, const char *name, const char *prefix)
{
    const char *const argv[] = {"sandpiper-sweeper", name, prefix, NULL};
    pid_t pid = companion_start(argv, &parent_fd, 1, &sweeper->fd);
    if (pid < 0) {
        return pid;
    }
    sweeper->pid = pid;
    return 0;
}
