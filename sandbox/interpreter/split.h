#pragma once
#include <stddef.h>

#include "sandbox/interpreter/session.h"

/* One pipe that carries both streams of a guest in the order of writing: output through sys.stderr
 * is framed (guest/streams.py), everything else is stdout. Code that forges frames only mislabels
 * its own output. */

enum { SPLIT_MAGIC = 6, SPLIT_HEAD = SPLIT_MAGIC + 2 }; /* followed by the frame's size, u16 */

struct split {
    unsigned char held[SPLIT_HEAD]; /* possible head of a frame */
    size_t held_size;
    size_t left; /* bytes of the frame still to come */
};

typedef void (*split_fn)(void *arg, enum box_stream stream, const char *bytes, size_t size);

/* Calls fn for each part of one stream. */
void split_feed(struct split *split, const char *bytes, size_t size, split_fn fn, void *arg);

/* No more data at this moment: held bytes were output. A frame's rest may still come. */
void split_flush(struct split *split, split_fn fn, void *arg);
