#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* Whether path is a regular file that this process may execute. */
bool helper_is_program(const char *path);
/* The first program of that name in directories as in PATH, of which only absolute ones count. */
bool helper_find(const char *directories, const char *name, char path[PATH_MAX]);

/* Starts a program of the host that works for the server outside any sandbox. The program gets only
 * what it is given: the root directory, its own process session, no blocked signals, these
 * arguments and variables, and /dev/null as standard streams. stream: STDOUT_FILENO or
 * STDERR_FILENO, goes to a pipe instead; *ret_fd is the pipe's end for reading, non-blocking. path:
 * absolute, and accepted by trust.h. *ret_pid: a child, to be ended with helper_end(). 0 or
 * -errno */
[[nodiscard]] int helper_start(const char *path, char *const argv[], char *const envp[], int stream,
                               pid_t *ret_pid, int *ret_fd);

/* Kills the program with its process group and reaps it. */
void helper_end(pid_t pid);
