#pragma once
#include "rpc/peer.h"

/* One line of the host: parses it, carries out what can be done at once, starts the rest. */
void dispatch_line(struct rpc_peer *peer, struct span line);

/* A line that was too long to be kept. */
void dispatch_too_long(struct rpc_peer *peer);
