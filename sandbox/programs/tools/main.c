/* Runs a tool server (--tools) outside of any sandbox, for as long as the server lives.
 *
 * It is the subreaper of the program that it executes, so that no descendant leaves by losing its
 * parent or by starting a process session. When the socket ends, because the server has closed it
 * or was killed, or when the program exits, it kills all of them.
 *
 *   sandpiper-tools     fd 3: the socket */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/roles.h"
#include "sandbox/protocol/helper_protocol.h"
#include "sandbox/protocol/packet.h"

enum { SOCKET_FD = 3, END_MS = 100 /* from the end of stdin and SIGTERM to SIGKILL */ };

static struct tools_request request;
static char *words[TOOLS_WORDS + 4]; /* of the request, a NULL after the arguments and at the end */

/* False: the request is not whole. */
static bool split_words(void)
{
    size_t count = 2 + (size_t)request.argument_count + request.variable_count;
    char *at = request.text;
    char *end = request.text + request.text_size;
    unsigned filled = 0;
    if (request.argument_count > TOOLS_WORDS || request.variable_count > TOOLS_WORDS ||
        count > TOOLS_WORDS || request.text_size == 0 || request.text_size > TOOLS_TEXT_BYTES ||
        end[-1]) {
        return false;
    }
    for (size_t i = 0; i < count && at < end; i++) {
        words[filled++] = at;
        at += strlen(at) + 1;
        filled += i == 1 + request.argument_count; /* which leaves a NULL */
    }
    return filled == count + 1 || (filled == count && request.variable_count == 0);
}

static void report(int error, int status)
{
    const struct tools_reply reply = {error, status};
    (void)packet_send(SOCKET_FD, &reply, sizeof reply, NULL, 0, MSG_DONTWAIT);
}

__attribute__((noreturn)) static void become(const int streams[TOOLS_STREAMS])
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int number = 1; number < 32; number++) {
        (void)sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    bool ready = setsid() >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && chdir(words[0]) == 0;
    for (int fd = 0; fd < TOOLS_STREAMS; fd++) {
        ready = ready && dup2(streams[fd], fd) == fd;
    }
    if (ready) {
        (void)execve(words[1], &words[2], &words[2 + request.argument_count + 1]);
    }
    report(errno, 0);
    _exit(127);
}

/* Returns when the program has exited or the socket has ended: whether it has exited. */
static bool wait_for_end(int pidfd, int timeout_ms, bool listens)
{
    for (;;) {
        struct pollfd polled[] = {{.fd = pidfd, .events = POLLIN},
                                  {.fd = listens ? SOCKET_FD : -1, .events = POLLIN}};
        int ready = poll(polled, 2, timeout_ms);
        if (ready >= 0 || errno != EINTR) {
            return ready > 0 && polled[0].revents;
        }
    }
}

int tools_main(void)
{
    int streams[TOOLS_STREAMS];
    int status = 0;
    (void)fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC); /* the program gets its streams and no more */
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    ssize_t size = 0;
    struct pollfd polled = {.fd = SOCKET_FD, .events = POLLIN};
    do {
        (void)poll(&polled, 1, -1);
        size = packet_receive(SOCKET_FD, &request, sizeof request, streams, TOOLS_STREAMS);
    } while (size == -EINTR || size == -EAGAIN);
    if (size != sizeof request || streams[TOOLS_STREAMS - 1] < 0 || !split_words() ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        report(EPROTO, 0);
        return 1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(streams);
    }
    for (int fd = 0; fd < TOOLS_STREAMS; fd++) {
        (void)close(streams[fd]);
    }
    int pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        report(errno, 0);
    }
    bool ended = pidfd < 0 || wait_for_end(pidfd, -1, /* listens= */ true);
    if (!ended) {
        (void)kill(pid, SIGTERM);
        ended = wait_for_end(pidfd, END_MS, /* listens= */ false);
    }
    if (ended && pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
        report(0, status);
    }
    (void)process_tree_kill(getpid());
    return 0;
}
