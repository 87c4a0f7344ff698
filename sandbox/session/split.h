#pragma once
#include <stddef.h>

#include "sandbox/sandbox.h"

/* One pipe that carries both streams of a guest in the order in which they were written: what went
 * through sys.stderr is framed in it (guest/streams.py), all else is stdout. The guest's word: what
 * code forges there mislabels its own output, and no more. */

enum { SPLIT_MAGIC = 6, SPLIT_HEAD = SPLIT_MAGIC + 2 }; /* then u16, the size of the frame */

struct split {
    unsigned char held[SPLIT_HEAD]; /* what may become the head of a frame */
    size_t held_size;
    size_t left; /* bytes of the frame that are still to come */
};

typedef void (*split_fn)(void *arg, enum box_stream stream, const char *bytes, size_t size);

/* Calls fn for each stretch of one stream. */
void split_feed(struct split *split, const char *bytes, size_t size, split_fn fn, void *arg);

/* Nothing more is there now: what is held was output. A frame's rest may still come. */
void split_flush(struct split *split, split_fn fn, void *arg);
