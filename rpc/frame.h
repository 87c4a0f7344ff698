#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "rpc/scan.h"

/* Cuts a byte stream into lines. Starts zeroed. */
struct frame {
    struct buf in;
    size_t scanned; /* leading bytes known to hold no LF: a long line is searched only once */
    size_t taken;   /* leading bytes of the last line handed out */
    bool started;   /* past the place where a byte order mark may be */
    bool skipping;  /* inside a line that is too long, its start already dropped */
    struct scan_outline outline; /* of that line */
};

enum frame_result {
    FRAME_NONE,     /* more bytes are needed */
    FRAME_LINE,     /* *ret_line is set */
    FRAME_TOO_LONG, /* a line of more than max bytes was dropped; *ret_line is its outline */
};

void frame_done(struct frame *frame);

/* Where the next bytes go: space for at least size. 0 or -ENOMEM. Invalidates the last line. */
int frame_reserve(struct frame *frame, size_t size, char **ret_space);
void frame_commit(struct frame *frame, size_t size);

/* The next line that is not blank, without its LF or CRLF, borrowed until the next frame_ call.
 * at_end: no more bytes will come, so a last line without LF counts. */
enum frame_result frame_next(struct frame *frame, size_t max, bool at_end, struct span *ret_line);
