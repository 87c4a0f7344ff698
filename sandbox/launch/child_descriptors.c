#include "base/fd.h"
#include "sandbox/launch/child.h"

void child_keep_own(const struct child_setup *setup)
{
    int kept[5 + CGROUP_DIRECTORIES + PLAN_TREES] = {setup->go_fd, setup->error_fd, setup->init_fd,
                                                     setup->config_fd, setup->program_fd};
    unsigned count = 5;
    int last = 2;
    for (unsigned i = 0; setup->tasks && i < CGROUP_DIRECTORIES; i++) {
        kept[count++] = setup->tasks[i];
    }
    for (unsigned i = 0; setup->taken && i < PLAN_TREES; i++) {
        kept[count++] = setup->taken[i];
    }
    for (;;) {
        int next = -1; /* the lowest kept descriptor above last */
        for (unsigned i = 0; i < count; i++) {
            if (kept[i] > last && (next < 0 || kept[i] < next)) {
                next = kept[i];
            }
        }
        if (next < 0) {
            fd_close_range((unsigned)last + 1, ~0U);
            return;
        }
        if (next > last + 1) {
            fd_close_range((unsigned)last + 1, (unsigned)next - 1);
        }
        last = next;
    }
}
