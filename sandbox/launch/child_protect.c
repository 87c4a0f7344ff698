#include <string.h>
#include <unistd.h>

#include "sandbox/launch/child.h"
#include "sandbox/workspace/walk.h"

int child_protect(const struct child_setup *setup, const struct plan_step *step,
                  struct box_protected *found)
{
    struct fail reported = {};
    bool mounts = setup->plan->namespaces != 0;
    struct protect_root roots[PROTECT_ROOTS] = {};
    unsigned count = 0;
    const uint64_t rows = found->rows;
    for (unsigned i = 0; i < setup->plan->step_count && count < PROTECT_ROOTS; i++) {
        const struct plan_step *other = &setup->plan->steps[i];
        if (other->kind == PLAN_PROTECT) {
            /* While the new root is built, it is the working directory. */
            roots[count++] = (struct protect_root){mounts ? other->target + 1 : other->target,
                                                   mounts ? other->source : other->target};
            if (other == step) {
                struct protect_root first = roots[0];
                roots[0] = roots[count - 1];
                roots[count - 1] = first;
            }
        }
    }
    found->shared = setup->plan->workspace_shared;
    if (protect_directory(roots, count, setup->plan->allow_write, mounts, found) < 0) {
        return -1;
    }
    if (mounts && strcmp(step->target, "/work") != 0) {
        found->rows = rows; /* protected rows of the workspace */
    }
    _Static_assert(sizeof *found <= sizeof reported.text);
    memcpy(reported.text, found, sizeof *found);
    return write(setup->error_fd, &reported, sizeof reported) == (ssize_t)sizeof reported ? 0 : -1;
}
