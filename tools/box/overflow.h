#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tools/box/tool.h"

/* An output that is too long for a result, or whose result is never sent, in a file in the sandbox
 * that code can read and not write. read_file reads it in ranges. Init creates the file. Output
 * that arrives before the file is open is held here, so the owner makes the guest wait until then.
 * Nothing is written once the file is full. */

struct overflow;

/* The files of one server. Their number and size are bounded; the oldest are removed first. */
struct overflows {
    struct server_box *server_box;
    unsigned last_number;
    uint64_t most_bytes; /* of one file */
    struct overflow_file {
        const char *stem;
        unsigned number;
        uint64_t size;
    } kept[16];
    unsigned kept_count;
    unsigned opening; /* files that a result may name, and that init has not made yet */
    void (*on_opened)(void *arg);
    void *arg;
};

/* on_opened: fewer are opening. */
void overflows_init(struct overflows *overflows, struct server_box *server_box,
                    void (*on_opened)(void *arg), void *arg);

/* Begins the file STEM-NUMBER.txt with bytes. stem: static. number: 0: the next. on_open: the file
 * accepts output, or has failed. Returns NULL without a sandbox or memory. */
struct overflow *overflow_begin(struct overflows *overflows, const char *stem, unsigned number,
                                const struct buf *bytes, void (*on_open)(void *arg), void *arg);
/* Prevents a later call of on_open. */
void overflow_detach(struct overflow *overflow);

enum { OVERFLOW_PATH_BYTES = 2 * LIMIT_OVERFLOW_NAME_BYTES };

/* The path of the file in the sandbox. Returns false if the file could not be made. */
bool overflow_path(const struct overflow *overflow, char out[OVERFLOW_PATH_BYTES]);

void overflow_add(struct overflow *overflow, const char *bytes, size_t size);

/* Calls fn, maybe before this returns, and frees overflow, which may be NULL. path: of the file, or
 * NULL when there is none. size: of its content, less than was added if the disk is full or the
 * limit was reached. */
typedef void (*overflow_fn)(void *arg, const char *path, uint64_t size);
void overflow_finish(struct overflow *overflow, overflow_fn fn, void *arg);

/* Frees overflow without a report. It may be NULL. */
void overflow_free(struct overflow *overflow);
