#pragma once
#include "rpc/peer.h"

struct cut;

/* One line of the host: parses it, carries out what can be done at once, starts the rest.
 * cut: what was done of a long line while it came in, else NULL. */
void dispatch_line(struct rpc_peer *peer, struct span line, const struct cut *cut);

/* A line that was too long to be kept. */
void dispatch_too_long(struct rpc_peer *peer);
