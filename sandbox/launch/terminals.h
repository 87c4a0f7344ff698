#pragma once
#include <sys/types.h>

/* Starts a process that makes a file system of pseudo-terminals that only the sandbox has; the
 * caller may make namespaces. path: any directory; the caller sees no mount there. Returns the
 * process, or -1 and errno. */
pid_t terminals_begin(const char *path);

/* Waits for that process. Returns the descriptor of its mount, which is in no namespace yet; or -1
 * and errno. */
int terminals_take(pid_t pid);
