#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tools/workspace.h"

/* The whole of an output that is too long for an answer, in a file in the sandbox that code can read and not
 * write, which read_file reads in ranges. The file is made by init; what comes before it is open is held here,
 * so the owner lets the guest wait until then. Nothing is written once it is full. */

struct spill;

/* The files of one server: their number and size are bounded, the oldest go first. */
struct spills {
    struct workspace *workspace;
    unsigned last_number;
    uint64_t most_bytes; /* of one file */
    struct spill_file {
        const char *stem;
        unsigned number;
        uint64_t size;
    } kept[16];
    unsigned kept_count;
};

void spills_init(struct spills *spills, struct workspace *workspace);

/* Begins the file STEM-NUMBER.txt with bytes. stem: static. on_open: the file takes what comes, or has failed. Returns NULL without
 * a box or memory. */
struct spill *spill_begin(struct spills *spills, const char *stem, const struct buf *bytes,
                          void (*on_open)(void *arg), void *arg);
bool spill_is_open(const struct spill *spill);
/* on_open is not called any more. */
void spill_detach(struct spill *spill);

void spill_add(struct spill *spill, const char *bytes, size_t size);

/* Calls fn, maybe before this returns, and frees spill. path: of the
 * file, or NULL when there is none; size: of what it holds, less than was added where the disk is
 * full or the bound was reached. */
typedef void (*spill_fn)(void *arg, const char *path, uint64_t size);
void spill_finish(struct spill *spill, spill_fn fn, void *arg);

/* Without a file. spill may be NULL. */
void spill_free(struct spill *spill);
