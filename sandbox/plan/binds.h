#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Mounts by path and mount(2), for kernels before 5.12 and for filters that refuse open_tree(2),
 * mount_setattr(2) or move_mount(2). For the child: allocates nothing, needs the host's /proc. */

/* Whether the calls are there. mount(2) alone makes the same box, in more steps. */
bool binds_needed(void);

/* Takes hold of a folder or file. Returns a descriptor, or -1 with errno. */
int bind_hold(const char *source);

/* The same for a folder whose path is to lead there by no link: somebody may have put one in its place
 * since the path was looked at. Else -1 with ELOOP. */
int bind_hold_straight(const char *source);

/* Binds what source_fd holds over path, with all that is mounted below it, and sets attributes
 * (MOUNT_ATTR_*, mount_setattr(2)) on each of these mounts. Fails where one of them cannot have
 * them. 0, or -1 with errno. */
int bind_tree(int source_fd, const char *path, uint64_t attributes);

/* The same for a folder of the new root, without what is mounted below it. */
int bind_folder(const char *source, const char *path, uint64_t attributes);

/* Undoes, in place, what mountinfo writes for blanks, line ends and backslashes: three octal digits,
 * proc_pid_mountinfo(5). */
void bind_unescape(char *text);

/* Sets attributes on the one mount at path. */
int bind_restrict(const char *path, uint64_t attributes);
