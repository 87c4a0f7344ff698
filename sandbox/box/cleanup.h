#pragma once
#include <stdbool.h>

#include "sandbox/protocol/helper_protocol.h"

/* What would outlive a server: control groups and directories. The cleanup helper
 * (programs/cleanup), one process for all of them, removes each on request, and the rest when the
 * server is gone, for whatever reason. */

/* One item to remove: a unique name, in each of the parents. */
struct cleanup {
    enum cleanup_kind kind;
    const char *name;
    const int *parents;
    unsigned parent_count;
    bool known; /* whether the helper knows it */
};

/* Announces to the helper what is about to be made. The helper first removes what dead servers have
 * left in the parents. 0 or -errno */
int cleanup_add(struct cleanup *item);

/* Requests the removal. wait: if this was the last item, waits until all are removed, but for at
 * most a quarter of a second, because an MCP client gives a server half a second to exit. The
 * helper continues by itself after that. */
void cleanup_remove(struct cleanup *item, bool wait);

/* Renames a directory in parent_fd out of the way, and requests its removal. 0 or -errno */
int cleanup_discard(int parent_fd, const char *name);

/* Makes and locks the file that marks directory_fd as a living server's; before anything else is in
 * the directory, because after ten seconds without a holder it can be removed. Returns the
 * descriptor, which holds the lock, or -errno; -ENOENT: the directory is removed already, as this
 * machine was suspended meanwhile. */
int cleanup_lock(int directory_fd, const char *name);
