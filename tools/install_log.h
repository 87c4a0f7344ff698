#pragma once
#include "base/buf.h"
#include "tools/install_request.h"
#include "tools/spill.h"

/* What pip and the builds print during one install: beginning and end, each bounded, and at last a file
 * in the box that read_file reads. */

struct install_log {
    struct buf head;
    struct buf tail;
    uint64_t total;
};

void install_log_add(struct install_log *log, const char *bytes, size_t size);
void install_log_done(struct install_log *log);

/* Writes the file, without the passwords of sources, and empties log. fn as of spill_finish(), maybe
 * before this returns; its path is NULL where nothing was printed or there is no box. *ret_spill: until
 * fn is called, for spill_free(). */
void install_log_save(struct install_log *log, const struct install_sources *sources,
                      struct spills *spills, struct spill **ret_spill, spill_fn fn, void *arg);
