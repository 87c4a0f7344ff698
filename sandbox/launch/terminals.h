#pragma once

/* Makes a file system of pseudo-terminals that only the sandbox has, for a process that may make
 * namespaces. path: a directory, which stays empty. Returns the descriptor of its mount, which is
 * in no namespace yet; or -1 and errno.
 */
int terminals_mount(const char *path);
