#pragma once
#include <stddef.h>
#include <string.h>

/* One data file that build-aux/embed.py turned into bytes of this binary. */
struct embedded {
    const char *name;          /* DIRECTORY/FILE where it goes into a directory of its own */
    const unsigned char *data; /* a NUL follows the last byte; size excludes it */
    size_t size;
};

/* The mode of a file made of it: those in bin/ are programs. */
static inline unsigned embedded_mode(const struct embedded *file)
{
    return strncmp(file->name, "bin/", 4) == 0 ? 0555 : 0444;
}
