#pragma once
#include <sys/types.h>

/* openat(2) with O_CLOEXEC and O_NOCTTY, but no magic link of /proc is passed through: -ELOOP, as by
 * openat2(2) with RESOLVE_NO_MAGICLINKS. Plain links are followed, unless flags has O_NOFOLLOW.
 * Returns the descriptor or -errno. */
int walk_open(int dir_fd, const char *path, int flags, mode_t mode);
