#include "sandbox/interpreter/split.h"

#include <string.h>

static const unsigned char magic[SPLIT_MAGIC] =
    "\0\x1b"
    "err";

/* Adds one byte to the held ones. Returns false when that is not the head of a frame. */
static bool hold(struct split *split, char byte)
{
    if (split->held_size < SPLIT_MAGIC && (unsigned char)byte != magic[split->held_size]) {
        return false;
    }
    split->held[split->held_size++] = (unsigned char)byte;
    if (split->held_size == SPLIT_HEAD) {
        split->left = split->held[SPLIT_MAGIC] | (size_t)split->held[SPLIT_MAGIC + 1] << 8;
        split->held_size = 0;
    }
    return true;
}

void split_flush(struct split *split, split_fn fn, void *arg)
{
    if (split->held_size > 0) {
        size_t size = split->held_size;
        split->held_size = 0;
        fn(arg, BOX_STDOUT, (const char *)split->held, size);
    }
}

void split_feed(struct split *split, const char *bytes, size_t size, split_fn fn, void *arg)
{
    const char *end = bytes + size;
    while (bytes < end) {
        size_t rest = (size_t)(end - bytes);
        if (split->left > 0) {
            size_t part = rest < split->left ? rest : split->left;
            split->left -= part;
            fn(arg, BOX_STDERR, bytes, part);
            bytes += part;
        } else if (split->held_size > 0) {
            /* A byte that does not match is checked again: it may start another head. */
            if (hold(split, *bytes)) {
                bytes++;
            } else {
                split_flush(split, fn, arg);
            }
        } else {
            const char *head = memchr(bytes, magic[0], rest);
            size_t part = head ? (size_t)(head - bytes) : rest;
            if (part > 0) {
                fn(arg, BOX_STDOUT, bytes, part);
            }
            bytes += part;
            if (head) {
                (void)hold(split, *bytes++);
            }
        }
    }
}
