#pragma once
#include <stddef.h>

/* One data file that build-aux/embed.py turned into bytes of this binary. */
struct embedded {
    const char *name;
    const unsigned char *data; /* a NUL follows the last byte; size excludes it */
    size_t size;
};
