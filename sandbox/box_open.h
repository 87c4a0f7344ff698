#pragma once
#include "sandbox/box/box.h"

/* For installer/: starts a sandbox with another role. */

/* content: borrowed until box_open() returns. installer: NULL, or the role's. */
struct box_setup {
    const struct box_role *role;
    struct box_installer *installer;
    struct plan_content *content; /* box_open() sets its interpreter */
};

/* Builds the sandbox and requests the role's process. 0 or -errno */
[[nodiscard]] int box_open(struct loop *loop, const struct box_spec *spec,
                           const struct box_owner *owner, const struct box_setup *setup,
                           struct box **ret_box, struct fail *ret_fail);
