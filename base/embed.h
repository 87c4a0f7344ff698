#pragma once
#include <stddef.h>

/* One data file that build-aux/embed.py turned into bytes of this binary. */
struct embedded {
    const char *name;          /* DIRECTORY/FILE where it goes into a directory of its own */
    const unsigned char *data; /* a NUL follows the last byte; size excludes it */
    size_t size;
};
