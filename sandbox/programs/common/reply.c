#include "sandbox/programs/common/reply.h"

#include <errno.h>
#include <sys/socket.h>

#include "sandbox/protocol/packet.h"

void reply_send_fds(const struct wire_reply *reply, const int *fds, size_t count)
{
    ssize_t sent = packet_send(WIRE_INIT_FD, reply, wire_reply_size(reply), fds, count, 0);
    if (sent == -ETOOMANYREFS) { /* the guest has as many in transit as the user may have */
        struct wire_reply refused = *reply;
        refused.error = ETOOMANYREFS;
        sent = packet_send(WIRE_INIT_FD, &refused, wire_reply_size(&refused), NULL, 0, 0);
    }
    if (sent < 0) {
        (void)shutdown(WIRE_INIT_FD, SHUT_RDWR);
    }
}

void reply_send(const struct wire_reply *reply, int fd)
{
    reply_send_fds(reply, &fd, fd >= 0);
}

void reply_note(const struct wire_reply *reply)
{
    (void)packet_send(WIRE_INIT_FD, reply, wire_reply_size(reply), NULL, 0, MSG_DONTWAIT);
}

void reply_result(uint32_t id, int error)
{
    reply_send(&(struct wire_reply){.event = WIRE_RESPONSE, .id = id, .error = error}, -1);
}
