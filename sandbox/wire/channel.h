#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"

/* Frames between the server and the guest: u32 size of what follows, then fields, each u32 size and
 * bytes; all little-endian. The peer is hostile: sizes are checked before anything is allocated. */

enum channel_result { CHANNEL_NONE, CHANNEL_MESSAGE, CHANNEL_BROKEN };

/* Looks for one whole frame at the front of in. On CHANNEL_MESSAGE fields[0 … *ret_count) point
 * into in, and *ret_size bytes are to be consumed when they are done with. */
enum channel_result channel_next(const struct buf *in, struct box_field *fields, size_t max_fields,
                                 size_t *ret_count, size_t *ret_size);

/* Appends a frame. 0, -EMSGSIZE or -ENOMEM; on failure out is as before. */
int channel_encode(struct buf *out, const struct box_field *fields, size_t count);
