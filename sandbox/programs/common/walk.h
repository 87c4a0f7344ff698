#pragma once
#include <sys/types.h>

/* openat(2) with O_CLOEXEC and O_NOCTTY that passes through no magic link of /proc: -ELOOP, as
 * openat2(2) with RESOLVE_NO_MAGICLINKS. Follows plain symlinks, unless flags has O_NOFOLLOW.
 * Returns the descriptor or -errno. */
int walk_open(int dir_fd, const char *path, int flags, mode_t mode);
