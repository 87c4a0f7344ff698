/* Where a box has no pid namespace, pid 1's program is its guardian: an ordinary process, but a subreaper,
 * so that whatever the guest starts stays below it, and when it has no child left nobody is left. It has
 * no privileges either, and where the server could give ids away these are the guest's, but for the real
 * and the saved one: so it can do to the guest what the guest can, and the guest can neither signal nor
 * trace it. It asks for no death signal, for it has to end the others before it ends: the end of its
 * socket tells it.
 *
 * It lives in a Landlock domain of its own, what the guest has, whole outputs and /proc, so that the file tools and the
 * calls that it carries out for the guest (notify.h) reach no more than the guest does. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/init/init.h"
#include "sandbox/wire/packet.h"

enum { OWN_RULES = 3 };

/* RESOLVE_UNIX: what connects is this process, and it looks first where to. */
static int confine_self(const struct init *init)
{
    struct landlock_rule rules[INIT_RULES + OWN_RULES];
    unsigned count = 0;
    for (; count < init->rule_count; count++) {
        rules[count] = init->rules[count];
        if (rules[count].allowed & LANDLOCK_FS_MAKE_SOCK) {
            rules[count].allowed |= LANDLOCK_FS_RESOLVE_UNIX;
        }
    }
    rules[count++] = (struct landlock_rule){"/proc", LANDLOCK_RULE_READ | LANDLOCK_FS_WRITE_FILE};
    rules[count++] =
        (struct landlock_rule){init->view.output, LANDLOCK_RULE_WRITE | LANDLOCK_RULE_STRAIGHT};
    if (init->view.egress[0]) {
        rules[count++] = (struct landlock_rule){init->view.egress, LANDLOCK_FS_RESOLVE_UNIX};
    }
    return landlock_confine(rules, count, LANDLOCK_NO_TCP);
}

enum wire_step guard_begin(struct init *init)
{
    const struct notify_settings settings = {.rules = init->rules,
                                             .rule_count = init->rule_count,
                                             .egress_path = init->view.egress,
                                             .file_bytes = init->config->file_bytes,
                                             .tasks_max = init->config->tasks_max,
                                             .root = getpid()};
    init->root = settings.root;
    if (confine_self(init) < 0) {
        return WIRE_STEP_LANDLOCK;
    }
    return notify_open(&init->notify, &settings) < 0 ? WIRE_STEP_LISTENER : WIRE_STEP_NONE;
}

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
    /* With namespaces the sandbox holds without it; that signals are not kept apart the self-test sees. */
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
