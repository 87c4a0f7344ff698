#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/types.h>

/* Whether an id of this user namespace's parent can be given to a child namespace: all can on a
 * plain host, only the own ones inside of a namespace that maps a few. user_namespaces(7). */
bool idmap_covers(uid_t id);
/* Whether all of these are effective in this process. */
bool idmap_has_capabilities(const cap_value_t *needed, size_t count);
/* Whether this process has the capabilities to give ids that are not its own. */
bool idmap_may_give(void);

struct idmap {
    uid_t disk_uid; /* who a file belongs to on disk */
    gid_t disk_gid;
    uid_t outside_uid; /* and in the tree, and the reverse */
    gid_t outside_gid;
};

/* A detached tree of the folder that fd holds (O_PATH), read-write and with mapped ids, so that a box
 * that runs as one id can work in the folder of another. Needs root; the file system must support it,
 * mount_setattr(2), Linux 5.12. Returns a descriptor or -errno. */
int idmap_tree(int fd, const struct idmap *idmap);
