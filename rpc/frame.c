#include "rpc/frame.h"

#include <string.h>

enum { FRAME_KEEP_BYTES = 1 << 20 };

void frame_done(struct frame *frame)
{
    buf_done(&frame->in);
    *frame = (struct frame){};
}

static void frame_drop(struct frame *frame, size_t size)
{
    buf_consume(&frame->in, size);
    frame->scanned = 0;
    frame->taken = 0;
}

static void frame_drop_taken(struct frame *frame)
{
    if (frame->taken > 0) {
        frame_drop(frame, frame->taken);
    }
}

int frame_reserve(struct frame *frame, size_t size, char **ret_space)
{
    frame_drop_taken(frame);
    if (buf_size(&frame->in) == 0) {
        buf_clear(&frame->in, FRAME_KEEP_BYTES);
    }
    return buf_reserve(&frame->in, size, ret_space);
}

void frame_commit(struct frame *frame, size_t size)
{
    buf_commit(&frame->in, size);
}

static const char mark[] = "\xEF\xBB\xBF";

/* Removes what is not part of the message: the byte order mark and the CR. */
static struct span frame_trim(struct frame *frame, struct span line)
{
    size_t size = sizeof mark - 1;
    if (!frame->started && line.size >= size && memcmp(line.bytes, mark, size) == 0) {
        line.bytes += size;
        line.size -= size;
    }
    frame->started = true;
    if (line.size > 0 && line.bytes[line.size - 1] == '\r') {
        line.size--;
    }
    return line;
}

static bool frame_blank(struct span line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.bytes[i] != ' ' && line.bytes[i] != '\t' && line.bytes[i] != '\r') {
            return false;
        }
    }
    return true;
}

/* Drops the next bytes of a line that is too long. */
static void frame_skip(struct frame *frame, size_t size)
{
    if (!frame->skipping) {
        frame->outline = (struct scan_outline){};
    }
    frame->skipping = true;
    scan_outline(&frame->outline, (struct span){buf_bytes(&frame->in), size});
    frame_drop(frame, size);
}

static enum frame_result frame_skipped(struct frame *frame, struct span *ret_outline)
{
    frame->skipping = false;
    *ret_outline =
        (struct span){frame->outline.text, frame->outline.full ? 0 : frame->outline.size};
    return FRAME_TOO_LONG;
}

/* Finds the end of the first line. Returns its size with the LF, or 0 without an LF. */
static size_t frame_find(struct frame *frame, bool at_end)
{
    size_t size = buf_size(&frame->in);
    if (size == frame->scanned) {
        return at_end ? size : 0;
    }
    const char *bytes = buf_bytes(&frame->in);
    const char *end = memchr(bytes + frame->scanned, '\n', size - frame->scanned);
    if (end) {
        return (size_t)(end - bytes) + 1;
    }
    frame->scanned = size;
    return at_end ? size : 0;
}

enum frame_result frame_next(struct frame *frame, size_t max, bool at_end, struct span *ret_line)
{
    frame_drop_taken(frame);
    for (;;) {
        size_t take = frame_find(frame, at_end);
        if (take == 0) {
            bool ended = at_end && frame->skipping;
            /* What frame_trim may remove, so that a line passes however it was cut. */
            size_t most = max + 1 + (frame->started ? 0 : sizeof mark - 1);
            if (frame->skipping || buf_size(&frame->in) > most) {
                frame_skip(frame, buf_size(&frame->in));
            }
            return ended ? frame_skipped(frame, ret_line) : FRAME_NONE;
        }
        struct span line = {buf_bytes(&frame->in), take};
        line.size -= line.bytes[take - 1] == '\n';
        line = frame_trim(frame, line);
        if (frame->skipping || line.size > max) {
            frame_skip(frame, take);
            return frame_skipped(frame, ret_line);
        }
        if (!frame_blank(line)) {
            frame->taken = take;
            *ret_line = line;
            return FRAME_LINE;
        }
        frame_drop(frame, take);
    }
}
