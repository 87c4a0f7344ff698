#include "sandbox/programs/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/policy/landlock.h"
#include "sandbox/protocol/packet.h"

/* The static program of sandbox/programs/init, embedded as it is (build-aux/embed_program.py). */
extern const unsigned char init_image_start[];
extern const unsigned char init_image_end[];

/* Sealed against writing: in CVE-2019-5736 a guest wrote to the program that ran it. The size comes
 * first, because a limit on files (RLIMIT_FSIZE) refuses that already. */
static int create(const char *name, size_t size, struct fail *ret_fail)
{
    defer_close int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) { /* before Linux 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd < 0) {
        return fail_set(ret_fail, errno, "memfd for %s (sysctl vm.memfd_noexec must be below 2)",
                        name);
    }
    return ftruncate(fd, (off_t)size) < 0 ? fail_set(ret_fail, errno, "memfd for %s", name)
                                          : take_fd(&fd);
}

static int fill(int fd, const unsigned char *bytes, size_t size)
{
    int r = fd_write_all(fd, bytes, size);
    /* Nobody reads the bytes again: unmapped, they are no memory of the server's. */
    uintptr_t into_page = (uintptr_t)bytes % (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)madvise((void *)((uintptr_t)bytes - into_page), size + into_page, MADV_DONTNEED);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
        r = -errno;
    }
    return r;
}

int program_make(const char *name, const unsigned char *bytes, size_t size, struct fail *ret_fail)
{
    defer_close int made = create(name, size, ret_fail);
    int r = made < 0 ? made : fill(made, bytes, size);
    return made < 0 ? made : r < 0 ? fail_set(ret_fail, -r, "memfd for %s", name) : take_fd(&made);
}

/* The first program that is spawned copies the image into the memfd, while the server goes on.
 * filler_fd: where that one reports; -1: it has, or there is none. */
static struct {
    int fd;
    int filler_fd;
} image = {.fd = -1, .filler_fd = -1};

static const char image_name[] = "sandpiper-init";

static size_t image_size(void)
{
    return (size_t)(init_image_end - init_image_start);
}

static int fill_image(void)
{
    return fill(image.fd, init_image_start, image_size());
}

int program_fd(struct fail *ret_fail)
{
    if (image.fd < 0) {
        image.fd = program_make(image_name, init_image_start, image_size(), ret_fail);
    }
    return image.fd;
}

int program_wait(struct fail *ret_fail)
{
    int ignored = 0;
    int r = 0;
    if (image.filler_fd >= 0) {
        (void)read(image.filler_fd, &ignored, sizeof ignored);
        drop_fd(&image.filler_fd);
        if ((fcntl(image.fd, F_GET_SEALS) & F_SEAL_WRITE) == 0) { /* perhaps it was killed */
            r = lseek(image.fd, 0, SEEK_SET) < 0 ? -errno : fill_image();
        }
    }
    if (r < 0) {
        drop_fd(&image.fd);
        return fail_set(ret_fail, -r, "memfd for %s", image_name);
    }
    return 0;
}

enum { SOCKET = 3, REPORT, PROGRAM, FIRST_TO_CLOSE };

__attribute__((noreturn)) static void spawn_failed(int report_fd)
{
    (void)fd_write_all(report_fd, &errno, sizeof errno);
    _exit(1);
}

/* Parks the descriptors above those numbers first: they may lie on them. The next free ones will
 * do, so that this needs no more than three below RLIMIT_NOFILE. */
__attribute__((noreturn)) static void spawned_child(const char *const argv[], bool fills,
                                                    int socket_fd, int report_fd)
{
    static const char *const envp[] = {NULL};
    /* A kill of the client's process group must not reach it. */
    (void)setsid();
    int null = open("/dev/null", O_RDWR);
    int parked_socket = fcntl(socket_fd, F_DUPFD_CLOEXEC, FIRST_TO_CLOSE);
    int parked_report = fcntl(report_fd, F_DUPFD_CLOEXEC, FIRST_TO_CLOSE);
    int parked_program = fcntl(image.fd, F_DUPFD_CLOEXEC, FIRST_TO_CLOSE);
    if (null < 0 || parked_socket < 0 || parked_report < 0 || parked_program < 0) {
        spawn_failed(report_fd);
    }
    if (fills && (errno = -fill_image()) != 0) {
        spawn_failed(parked_report);
    }
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        dup2(parked_socket, SOCKET) < 0 || dup3(parked_report, REPORT, O_CLOEXEC) < 0 ||
        dup3(parked_program, PROGRAM, O_CLOEXEC) < 0) {
        spawn_failed(parked_report);
    }
    fd_close_range(FIRST_TO_CLOSE, ~0U);
    (void)syscall(SYS_execveat, PROGRAM, "", argv, envp, AT_EMPTY_PATH);
    spawn_failed(REPORT);
}

/* Whether no filter refuses what a spawned program needs. The kernel checks these arguments before
 * all else. */
static bool calls_are_allowed(void)
{
    return syscall(SYS_execveat, -1, "", NULL, NULL, AT_EMPTY_PATH) < 0 && errno == EBADF &&
           fd_may_close_range();
}

static pid_t spawn(const char *const argv[], int socket_fd)
{
    struct fail fail = {};
    defer_close int report_fd = -1;
    defer_close int child_report_fd = -1; /* closed by execveat(2), which leaves the pipe empty */
    int error = 0;
    int r = program_wait(&fail);
    bool fills = image.fd < 0 && calls_are_allowed();
    if (r == 0 && image.fd < 0 && !fills) {
        r = program_fd(&fail);
    }
    r = r < 0 ? r : fd_pipe(&report_fd, &child_report_fd);
    if (r == 0 && fills) {
        r = image.fd = create(image_name, image_size(), &fail);
    }
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        spawned_child(argv, fills, socket_fd, child_report_fd);
    }
    pid = pid < 0 ? -errno : pid;
    drop_fd(&child_report_fd);
    if (pid < 0 && fills) {
        drop_fd(&image.fd);
    } else if (fills) {
        image.filler_fd = take_fd(&report_fd);
    } else if (pid > 0 && read(report_fd, &error, sizeof error) == sizeof error) {
        (void)waitpid(pid, NULL, 0);
        return -error;
    }
    return pid;
}

pid_t program_spawn(const char *const argv[], const struct program_request *request, int *ret_fd)
{
    int ends[2];
    ssize_t r = fd_socketpair(SOCK_SEQPACKET, ends);
    if (r < 0) {
        return (pid_t)r;
    }
    defer_close int ours = ends[0];
    defer_close int theirs = ends[1];
    if (request) {
        r = packet_send(ours, request->bytes, request->size, request->fds, request->fd_count,
                        MSG_DONTWAIT);
    }
    pid_t pid = r < 0 ? (pid_t)r : spawn(argv, theirs);
    if (pid > 0) {
        *ret_fd = take_fd(&ours);
    }
    return pid;
}

bool program_has_ended(pid_t pid, int ms)
{
    defer_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&ended, 1, ms) == 1;
}

void program_kill(pid_t *pid)
{
    if (*pid > 0) {
        (void)kill(*pid, SIGKILL);
        while (waitpid(*pid, NULL, __WALL) < 0 && errno == EINTR) {
        }
        *pid = 0;
    }
}
