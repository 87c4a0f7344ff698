#pragma once
#include "base/buf.h"
#include "tools/box/overflow.h"
#include "tools/install/install_request.h"

/* The output of pip and the builds during one install: its beginning and end, each bounded. Finally
 * an overflow file, which read_file reads. */

struct install_log {
    struct buf head;
    struct buf tail;
    uint64_t total;
};

void install_log_add(struct install_log *log, const char *bytes, size_t size);
void install_log_done(struct install_log *log);

/* Writes the file, without the passwords of sources, and empties log. fn as of overflow_finish(),
 * maybe before this returns; its path is NULL if there was no output or there is no sandbox.
 * *ret_overflow: until fn is called, for overflow_free(). */
void install_log_save(struct install_log *log, const struct install_sources *sources,
                      struct overflows *overflows, struct overflow **ret_overflow, overflow_fn fn,
                      void *arg);
