#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/abi.h"
#include "sandbox/box.h"
#include "sandbox/program.h"

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

__attribute__((noreturn)) static void reaper_child(const struct box *box, int program, int pipe_fd)
{
    enum { FIRST = 4, PARKED = 200 };
    char count[16];
    const char *const argv[] = {"sandpiper-reaper", box->cgroup.name, count, NULL};
    const char *const envp[] = {NULL};
    (void)snprintf(count, sizeof count, "%u", box->cgroup.folder_count);
    /* Not in the host's process group: a kill of that must not reach it. */
    (void)setsid();
    int null = open("/dev/null", O_RDWR);
    int parked_program = fcntl(program, F_DUPFD_CLOEXEC, PARKED);
    int parked_pipe = fcntl(pipe_fd, F_DUPFD_CLOEXEC, PARKED);
    int parents[CGROUP_FOLDERS];
    for (unsigned i = 0; i < box->cgroup.folder_count; i++) {
        parents[i] = fcntl(box->cgroup.parent_fds[i], F_DUPFD_CLOEXEC, PARKED);
    }
    if (null < 0 || parked_program < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || dup2(parked_pipe, 3) < 0) {
        _exit(1);
    }
    for (unsigned i = 0; i < box->cgroup.folder_count; i++) {
        if (dup2(parents[i], FIRST + (int)i) < 0) {
            _exit(1);
        }
    }
    fd_close_range(FIRST + box->cgroup.folder_count, PARKED - 1);
    (void)syscall(SYS_execveat, parked_program, "", argv, envp, AT_EMPTY_PATH);
    _exit(1);
}

void reaper_start(struct box *box)
{
    int fds[2];
    struct fail fail = {};
    box->reaper_fd = -1;
    if (box->cgroup.folder_count == 0) {
        return;
    }
    int program = program_fd(&fail);
    if (program < 0 || pipe2(fds, O_CLOEXEC) < 0) {
        log_warn("sandbox", "no reaper: a killed server would leave its control group");
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        reaper_child(box, program, fds[0]);
    }
    (void)close(fds[0]);
    if (pid < 0) {
        (void)close(fds[1]);
        return;
    }
    box->reaper_pid = pid;
    box->reaper_fd = fds[1];
}

void reaper_stop(struct box *box)
{
    if (box->reaper_fd >= 0) {
        (void)kill(box->reaper_pid, SIGKILL);
        (void)waitpid(box->reaper_pid, NULL, 0);
        drop_fd(&box->reaper_fd);
    }
}
