#include "cli/terminal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"

enum { SAID_BYTES = 4096 };

void terminal_init(struct terminal *terminal, int fd)
{
    *terminal = (struct terminal){.fd = fd, .filters = isatty(fd) == 1};
}

/* Whether a terminal obeys it: controls (ECMA-48, 8-bit ones too), and what reorders a line. */
static bool is_obeyed(uint32_t code)
{
    return (code < ' ' && code != '\n' && code != '\t' && code != '\r') ||
           (code >= 0x7F && code <= 0x9F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* Size of a sequence that sets colours, at an ESC (ECMA-48 8.3.117, SGR); 0: it is none; size + 1:
 * it may become one. */
static size_t colour_size(const char *bytes, size_t size)
{
    size_t at = 2;
    if (size >= 2 && bytes[1] != '[') {
        return 0;
    }
    while (at < size && bytes[at] >= '0' && bytes[at] <= ';') { /* digits, ":", ";" */
        at++;
    }
    if (at >= TERMINAL_HELD_BYTES) {
        return 0;
    }
    return at >= size ? size + 1 : bytes[at] == 'm' ? at + 1 : 0;
}

/* Whether bytes begin an incomplete character. */
static bool is_partial(const char *bytes, size_t size, int length)
{
    unsigned char lead = (unsigned char)bytes[0];
    size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    return length < 0 && (size_t)-length == size && size < whole;
}

/* Appends the first character or sequence. Returns its size; 0: it is incomplete. */
static size_t filter_one(struct terminal *terminal, const char *bytes, size_t size, struct buf *out)
{
    int length = utf8_size(bytes, size);
    size_t colours = bytes[0] == '\033' ? colour_size(bytes, size) : 0;
    size_t piece = colours ? colours : length > 0 ? (size_t)length : 1;
    if (piece > size || is_partial(bytes, size, length)) {
        return 0;
    }
    if (colours > 0) {
        terminal->coloured = true;
    } else if (length < 0 || is_obeyed(utf8_code(bytes, length))) {
        (void)word_append_visible(out, bytes, piece);
        return piece;
    }
    (void)buf_append(out, bytes, piece);
    return piece;
}

/* A pipe that poll(2) finds writable takes PIPE_BUF bytes at once, pipe(7). */
void terminal_flush(struct terminal *terminal)
{
    while (terminal->error == 0 && buf_size(&terminal->queue) > 0) {
        struct pollfd pollfd = {.fd = terminal->fd, .events = POLLOUT};
        size_t size = buf_size(&terminal->queue);
        if (poll(&pollfd, 1, 0) == 0) {
            return;
        }
        ssize_t written =
            write(terminal->fd, buf_bytes(&terminal->queue), size < PIPE_BUF ? size : PIPE_BUF);
        if (written > 0) {
            buf_consume(&terminal->queue, (size_t)written);
        } else if (written < 0 && errno == EAGAIN) {
            return;
        } else if (written < 0 && errno != EINTR) {
            terminal->error = errno;
        }
    }
    if (terminal->error) {
        buf_clear(&terminal->queue, 0);
    }
}

/* r: of what was appended to the queue. */
static void flush_after(struct terminal *terminal, int r)
{
    if (r < 0 && terminal->error == 0) {
        terminal->error = -r;
    }
    terminal_flush(terminal);
}

void terminal_write(struct terminal *terminal, const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf in = BUF_EMPTY;
    if (!terminal->filters) {
        flush_after(terminal, buf_append(&terminal->queue, bytes, size));
        return;
    }
    int r = buf_append(&in, terminal->held, terminal->held_size);
    r = r ? r : buf_append(&in, bytes, size);
    terminal->held_size = 0;
    while (r == 0 && buf_size(&in) > 0) {
        size_t piece = filter_one(terminal, buf_bytes(&in), buf_size(&in), &terminal->queue);
        if (piece == 0) {
            terminal->held_size = buf_size(&in);
            memcpy(terminal->held, buf_bytes(&in), buf_size(&in));
            break;
        }
        buf_consume(&in, piece);
    }
    flush_after(terminal, r);
}

void terminal_end(struct terminal *terminal)
{
    static const char plain[] = "\033[0m";
    char held[TERMINAL_HELD_BYTES + 1] = "";
    char shown[TERMINAL_HELD_BYTES * WORD_ESCAPE_MOST];
    memcpy(held, terminal->held, terminal->held_size);
    terminal->held_size = 0;
    (void)word_line(held, shown, sizeof shown);
    int r = buf_append_text(&terminal->queue, shown);
    if (r == 0 && terminal->coloured) {
        terminal->coloured = false;
        r = buf_append_text(&terminal->queue, plain);
    }
    flush_after(terminal, r);
}

void terminal_done(struct terminal *terminal)
{
    buf_done(&terminal->queue);
}

void terminal_say(const char *fmt, ...)
{
    char text[SAID_BYTES];
    char line[SAID_BYTES + SAID_BYTES / 2];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "sandpiper: %s\n", word_line(text, line, sizeof line));
}

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
