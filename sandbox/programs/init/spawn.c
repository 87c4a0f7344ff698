#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/reply.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/programs/roles.h"

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

void zygote_start(struct init *init, const struct wire_request *request)
{
    defer_close_pair int ends[2] = {-1, -1};
    int listener[2] = {-1, -1};
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    int r = make_control(ends);
    r = r ? r : listener_pair(init, listener);
    reply.pid = r < 0 ? -1 : fork();
    if (reply.pid == 0) {
        if (chdir("/") < 0) { /* the interpreter must not start in the workspace */
            _exit(WIRE_STEP_SESSION);
        }
        guest_child(init, ends[1], listener[1], /* nests= */ true);
    }
    int error = r < 0 ? -r : errno;
    init->sees_writes =
        listener_take(init, listener) && init->config->asks_of_writes && !init->blind;
    reply.status = init->sees_writes;
    if (reply.pid > 0) {
        init->processes.zygote = reply.pid;
        init->guest_runs = true;
        reply_send(&reply, ends[0]);
    } else {
        reply_result(request->id, error);
    }
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
    reply.pid = r < 0 ? -1 : fork();
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
    if (reply.pid > 0) {
        int second = init->config->cow ? init->overlay_fd : watch_fd;
        const int theirs[] = {ends[0], greeting[0], second};
        init->processes.keeper = reply.pid;
        if (touches[0] >= 0) {
            int event_fd = init->config->own_workspace ? fcntl(watch_fd, F_DUPFD_CLOEXEC, 0) : -1;
            notify_tell(&init->notify, take_fd(&touches[0]), event_fd, init->paths.work, answers);
        }
        reply_send_fds(&reply, theirs, second < 0 ? 2 : 3);
    } else {
        reply_result(request->id, r < 0 ? -r : errno);
    }
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
    reply.pid = r < 0 ? -1 : fork();
    if (reply.pid == 0) {
        program_child(init, control[1], log[1], listener[1]);
    }
    if (reply.pid > 0) {
        const int theirs[] = {control[0], log[0]};
        init->processes.watched[0] =
            (struct watched){.pid = reply.pid, .tag = WIRE_TAG_ZYGOTE, .role = WIRE_ROLE_SESSION};
        init->guest_runs = true;
        reply_send_fds(&reply, theirs, 2);
    } else {
        reply_result(request->id, r < 0 ? -r : errno);
    }
    (void)listener_take(init, listener);
}
