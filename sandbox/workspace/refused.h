#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Names in the changes of a workspace that are applied to the user's directory only if the model
 * asks for them by name: programs run these files by themselves, or what they name (protected.h),
 * or a service runs them after a push. */

/* Of one directory of the user's: box_changes_find_rules(), refused_rules_done(). */
struct refused_rules {
    unsigned flags; /* enum refused_flags */
    /* Each with its NUL: what protected names in the directory lead to, that is targets of
     * symlinks, core.hooksPath, included files. A change there needs its name as those names do. */
    struct buf targets;
};

void refused_rules_done(struct refused_rules *rules);

enum refused_flags {
    REFUSED_HOME = 1, /* the directory is a home directory: each file with a dot in its top */
    REFUSED_BARE = 2, /* the path lies in a git repository without .git: HEAD, objects, refs */
};

struct refused {
    const char *row; /* ".git", "*.pth" */
    size_t size;     /* bytes of the path that are to be named */
};

/* Whether a changed path (relative, normal) is refused, where the model has asked for these named
 * paths (as the changed one; "" is the whole directory). A path opens a row if it is the row's
 * name or lies in it; all of .git can be named, and nothing in it. Compares names as a file system
 * might that ignores case. is_bare: REFUSED_BARE holds for this path. */
bool refused_find(const struct refused_rules *rules, const char *path, bool is_bare,
                  const char *const *named, size_t named_count, struct refused *ret);

/* Whether path is in or is `parent`. */
bool refused_is_in(const char *path, const char *parent);
