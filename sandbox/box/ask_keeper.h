#pragma once
#include <stddef.h>

struct box;
struct buf;

/* What requests to the keeper (box_ask_keeper()) have in common. */

/* Names a path for the next request: a filter, or a call's own. 0 or -errno; -ENAMETOOLONG */
int keeper_name_path(struct box *box, const char *path, size_t size);

/* Appends what the memfd of a response holds: a copy, since the keeper can still write there. 0 or
 * -errno; -EPROTO: it is no memfd, -E2BIG: more than most bytes. */
int keeper_read(int fd, size_t most, struct buf *out);

/* The same of a file that is the server's own. */
int keeper_read_own(int fd, size_t most, struct buf *out);
