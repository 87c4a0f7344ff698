#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* The code's output, on its way to the user's terminal. A terminal obeys what it receives: code
 * could write into the clipboard (OSC 52), type for the user (a terminal's reports come back as
 * typed text), rename the window or overwrite what it shows. To a terminal go text, line feeds,
 * tabs, carriage returns (progress bars) and colours (SGR); any other control character is shown as
 * in base/word.h. A pipe or a file gets the bytes as they are. */

enum { TERMINAL_HELD_BYTES = 32 };

/* What the reader does not take is queued, and nothing blocks: not even for a descriptor that
 * others opened without O_NONBLOCK, which the server does not change, as they share it. */

struct terminal {
    int fd;
    bool filters;
    bool coloured;                  /* SGR was passed on: the end resets it */
    char held[TERMINAL_HELD_BYTES]; /* the beginning of a character or of a sequence */
    size_t held_size;
    struct buf queue; /* not written yet */
    int error;        /* of the first write that failed, an errno value: the rest is dropped */
};

void terminal_init(struct terminal *terminal, int fd);

/* Writes as much as the reader takes and queues the rest. */
void terminal_write(struct terminal *terminal, const char *bytes, size_t size);

/* Writes what is held, and resets colours. */
void terminal_end(struct terminal *terminal);

/* Writes as much of the queue as the reader takes; to be called when poll(2) finds fd writable. */
void terminal_flush(struct terminal *terminal);

void terminal_done(struct terminal *terminal);

/* Writes "sandpiper: " and a line of the server's to stderr. It may hold paths and other words of
 * the caller: escapes invisible characters as word_line() does. */
__attribute__((format(printf, 1, 2))) void terminal_say(const char *fmt, ...);

/* Reads fd to its end and appends it to out. 0, -EFBIG when it is more than a call can carry, or
 * another -errno. */
int input_read(int fd, struct buf *out);
