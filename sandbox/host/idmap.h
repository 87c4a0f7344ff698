#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/types.h>

/* Whether a child namespace can be given this id of the parent user namespace. All can on a plain
 * host; inside a namespace that maps a few ids, only those. user_namespaces(7). */
bool idmap_covers(uid_t id);
/* Whether all of these are effective in this process. */
bool idmap_has_capabilities(const cap_value_t *needed, size_t count);
/* Whether this process has the capabilities to map ids other than its own. */
bool idmap_may_give(void);

struct idmap {
    uid_t disk_uid; /* owner of a file on disk */
    gid_t disk_gid;
    uid_t outside_uid; /* the same owner in the tree, and the reverse */
    gid_t outside_gid;
    bool top_only; /* without what is mounted below */
};

/* Maps the only ids of a process in a new user namespace: there, they are the disk's. 0 or -errno
 */
int idmap_write(pid_t pid, const struct idmap *idmap);

/* A detached tree of the directory that fd holds (O_PATH), writable and with mapped ids, so that a
 * sandbox with one uid can work in a directory of another. Needs root, and support by the file
 * system: mount_setattr(2), Linux 5.12. Returns a descriptor or -errno. */
int idmap_tree(int fd, const struct idmap *idmap);
