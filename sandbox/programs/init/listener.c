/* The listener of a guest's filter that asks init, on its way from the child that installs it. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/init/init.h"
#include "sandbox/protocol/packet.h"

int listener_pair(const struct init *init, int ends[2])
{
    ends[0] = -1;
    ends[1] = -1;
    return init->filter_notified.len ? fd_socketpair(SOCK_SEQPACKET, ends) : 0;
}

bool listener_give(const struct init *init, int to_fd)
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
void listener_take(struct init *init, int ends[2])
{
    char byte = 0;
    int listener = -1;
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    own_close(&ends[1]);
    if (ends[0] >= 0 && poll(&fd, 1, -1) == 1 &&
        packet_receive(ends[0], &byte, 1, &listener, 1) == 1 && listener >= 0) {
        (void)notify_take(&init->notify, listener);
    }
    own_close(&ends[0]);
}
