#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/plan/binds.h"
#include "sandbox/start/child.h"
#include "sandbox/workspace/walk.h"

int child_protect(const struct child_setup *setup, const struct plan_step *step,
                  struct box_protected *found)
{
    struct fail told = {};
    bool mounts = setup->plan->namespaces != 0;
    /* While the new root is built it is the working directory. */
    const char *path = mounts ? step->target + 1 : step->target;
    enum protect_how how = !mounts ? PROTECT_LOOK : binds_needed() ? PROTECT_BIND : PROTECT_MOUNT;
    if (protect_directory(path, setup->plan->allow_write, how, found) < 0) {
        return -1;
    }
    _Static_assert(sizeof *found <= sizeof told.text);
    memcpy(told.text, found, sizeof *found);
    return write(setup->error_fd, &told, sizeof told) == (ssize_t)sizeof told ? 0 : -1;
}
