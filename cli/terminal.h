#pragma once
#include <stdbool.h>
#include <stddef.h>

/* What code printed, on its way to the user's terminal. A terminal obeys what it is sent: code could write into the
 * clipboard (OSC 52), answer for the user (reports come back as typed text), rename the window or paint over what
 * stands there. To a terminal go text, line feeds, tabs, carriage returns (progress bars) and colours (SGR); any
 * other control character is shown as in base/word.h. A pipe or a file gets the bytes as they are. */

enum { TERMINAL_HELD_BYTES = 32 };

struct terminal {
    int fd;
    bool filters;
    bool coloured;                  /* SGR was passed on: it is taken back at the end */
    char held[TERMINAL_HELD_BYTES]; /* the beginning of a character or of a sequence */
    size_t held_size;
};

void terminal_init(struct terminal *terminal, int fd);

/* 0 or -errno. */
int terminal_write(struct terminal *terminal, const char *bytes, size_t size);

/* Writes what is held, and takes colours back. 0 or -errno. */
int terminal_end(struct terminal *terminal);

/* Writes "sandpiper: " and a line of ours to stderr. Paths and other words of whoever called may be in it: what is unseen
 * is shown as word_line() does. */
__attribute__((format(printf, 1, 2))) void terminal_say(const char *fmt, ...);
