#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Mounts by path and mount(2), for kernels before 5.12 and for filters that refuse open_tree(2),
 * mount_setattr(2) or move_mount(2). For the child: allocates nothing, needs the host's /proc. */

/* Whether one of these calls is missing. mount(2) alone makes the same sandbox in more steps. */
bool binds_needed(void);

/* Opens a directory or file for binding. Returns a descriptor, or -1 with errno. */
int bind_hold(const char *source);

/* The same for a directory whose path must not contain symlinks: somebody may have put one there
 * since the path was checked. Else -1 with ELOOP. */
int bind_hold_straight(const char *source);

/* Binds what source_fd refers to over path, with all that is mounted below it, and sets attributes
 * (MOUNT_ATTR_*, mount_setattr(2)) on each of these mounts. Fails if one of them cannot have them.
 * 0, or -1 with errno. */
int bind_tree(int source_fd, const char *path, uint64_t attributes);

/* The same for a directory of the new root, without the mounts below it. */
int bind_directory(const char *source, const char *path, uint64_t attributes);

/* Decodes in place the three octal digits that mountinfo writes for blanks, line ends and
 * backslashes, proc_pid_mountinfo(5). */
void bind_unescape(char *text);

/* Sets attributes on the mount at path. */
int bind_restrict(const char *path, uint64_t attributes);
