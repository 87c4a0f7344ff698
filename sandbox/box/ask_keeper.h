#pragma once
#include <stddef.h>

#include "sandbox/protocol/init_client.h"

struct box;
struct buf;

/* What requests to the keeper (box_ask_keeper()) have in common. */

/* Of what the keeper sends: 100,000 records with long paths. */
enum { KEEPER_REPLY_BYTES = 64 << 20 };

/* Names a path for the next request: a filter, or a call's own. 0 or -errno; -ENAMETOOLONG */
int keeper_name_path(struct box *box, const char *path, size_t size);
/* Sends the request, with paths before it; else like box_ask_keeper(). */
int keeper_ask_paths(struct box *box, struct wire_request *request, const char *const *paths,
                     size_t count, init_client_fn fn, void *arg);

/* Appends what the memfd of a response holds: a copy, since the keeper can still write there. 0 or
 * -errno; -EPROTO: it is no memfd, -E2BIG: more than most bytes. */
int keeper_read(int fd, size_t most, struct buf *out);

/* The same of a file that is the server's own. */
int keeper_read_own(int fd, size_t most, struct buf *out);
