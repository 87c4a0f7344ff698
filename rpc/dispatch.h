#pragma once
#include "rpc/peer.h"

/* Parses one line of the client, carries out what can be done at once, and starts the rest. */
void dispatch_line(struct rpc_peer *peer, struct span line);

/* Refuses a line that was too long to be kept. outline: what is left of it. */
void dispatch_too_long(struct rpc_peer *peer, struct span outline);
