#pragma once
#include <stddef.h>

#include "base/limits.h"

struct buf;
struct tools;

/* Finds what a caller may have meant by a path that does not exist. */

/* error: 0 or an errno value. text: the sentence to end the call with; borrowed. Without both, the
 * path is now that of a file whose name is the same but for how its characters are composed: open
 * it. */
typedef void (*not_found_fn)(void *arg, int error, const struct buf *text);

struct not_found {
    struct tools *tools;
    char *path;
    size_t end;      /* of path: the beginning that does not exist */
    unsigned climbs; /* how often it was shortened or changed, in all starts */
    not_found_fn fn;
    void *arg;
};

/* path: borrowed until fn is called, maybe before this returns. Starts with lookup zeroed, and
 * again where the changed path does not exist either. */
void not_found_start(struct not_found *lookup, struct tools *tools, char path[LIMIT_PATH_BYTES],
                     not_found_fn fn, void *arg);
