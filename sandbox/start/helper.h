#pragma once
#include <sys/types.h>

/* Starts a program of the host's that works for the server outside of any sandbox, so that it meets nothing of
 * anybody's but what it is handed: from the root directory, in a process session of its own, with no signal
 * blocked, these arguments and variables alone, and /dev/null as standard streams. stream: STDOUT_FILENO or
 * STDERR_FILENO, goes to a pipe instead: *ret_fd is the end to read, not blocking. path: absolute, and passed
 * trust.h's rule. *ret_pid: a child, to be ended by helper_end(). 0 or -errno */
[[nodiscard]] int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                               pid_t *ret_pid, int *ret_fd);

/* Kills it with all of its process session's group, and reaps it. */
void helper_end(pid_t pid);
