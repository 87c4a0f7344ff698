#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/fail.h"

/* Whether an id of this user namespace's parent can be given to a child namespace: all can on a
 * plain host, only the own ones inside of a namespace that maps a few. user_namespaces(7). */
bool idmap_covers(uid_t id);

/* A detached tree of path, read-write, in which what belongs to root on disk belongs to outside and
 * the reverse, so that a box that runs as another id can work in root's folder. Needs root; the file
 * system must support it, mount_setattr(2), Linux 5.12. Returns a descriptor or -errno. */
int idmap_tree(const char *path, uid_t outside_uid, gid_t outside_gid, struct fail *ret_fail);
