#pragma once
#include "sandbox/egress/address.h"

/* A socket on its way to an address; it does not wait. type: SOCK_STREAM or SOCK_DGRAM. Returns the
 * descriptor, or -errno when it can be said at once that nothing leads there. */
int connect_start(const struct egress_address *address, uint16_t port, int type);
