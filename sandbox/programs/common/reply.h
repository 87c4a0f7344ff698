#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox/protocol/init_protocol.h"

/* What init and the process monitor send to the server. Where that has exited, the socket is
 * closed: the program's next read finds its end. */

void reply_send(const struct wire_reply *reply, int fd); /* fd -1: none */
void reply_send_fds(const struct wire_reply *reply, const int *fds, size_t count);
/* Drops the message when the server does not read: the checks must go on. */
void reply_note(const struct wire_reply *reply);
/* The response to a request; error: an errno value or 0. */
void reply_result(uint32_t id, int error);
