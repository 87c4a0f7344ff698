#include "cli/input.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"

enum { PIECE_BYTES = 65536 };

int input_read(int fd, struct buf *out)
{
    for (;;) {
        char *space = NULL;
        if (buf_size(out) > LIMIT_FRAME_OUT_BYTES / 2) {
            return -EFBIG;
        }
        int r = buf_reserve(out, PIECE_BYTES, &space);
        if (r < 0) {
            return r;
        }
        ssize_t size = TEMP_FAILURE_RETRY(read(fd, space, PIECE_BYTES));
        if (size <= 0) {
            return size < 0 ? -errno : 0;
        }
        buf_commit(out, (size_t)size);
    }
}
