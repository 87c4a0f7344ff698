#pragma once
#include <stdint.h>

#include "base/limits.h"

/* To the keeper, before code does something in the workspace: from init,
 * which is notified of every program's calls; or, where the kernel cannot do that, from a session,
 * of what its Python code does. The first message on the sessions' socket brings a connection
 * (SCM_RIGHTS) and says nothing; on that follow these. The keeper responds to each with its
 * number. */
enum { WIRE_TOUCH_PATHS = 3 };
struct wire_touch {
    uint32_t state; /* that the call leads to */
    uint32_t number;
    uint32_t answers; /* that init has given to this number before */
    uint32_t
        thread;  /* which does it: what it has done before is over. 0: the third path says that */
    uint32_t op; /* enum wire_touch_op */
    char paths[WIRE_TOUCH_PATHS * LIMIT_PATH_BYTES]; /* relative to the workspace, each with a NUL:
                                         of what is touched; of its new name, or of the file of
                                         which it becomes a name; of what the thread has touched
                                         before, which is over */
};

enum wire_touch_op {
    WIRE_TOUCH_WRITE = 'w',     /* opens for writing */
    WIRE_TOUCH_OVER = 'o',      /* nothing new */
    WIRE_TOUCH_ATTRIBUTE = 'a', /* changes mode, times or size, without opening it */
    WIRE_TOUCH_CREATE = 'c',    /* makes a directory or symlink */
    WIRE_TOUCH_BRING = 'b',     /* renames something from outside of the workspace */
    WIRE_TOUCH_LINK = 'l',      /* makes a further name of a file */
    WIRE_TOUCH_REMOVE = 'd',
    WIRE_TOUCH_RENAME = 'r',
    WIRE_TOUCH_EXCHANGE = 'e', /* renames both */
    WIRE_TOUCH_UNKNOWN = 'x',  /* nobody knows where: no path */
};
