#pragma once

struct buf;

/* Reads fd to its end and appends it to out. 0, -EFBIG when it is more than a call can carry, or
 * another -errno. */
int input_read(int fd, struct buf *out);
