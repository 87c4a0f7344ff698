#pragma once
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Of /proc/PID/status: NGROUPS_MAX groups take 720 kB of it, before the sizes. */
enum { PROC_STATUS_BYTES = 1 << 20 };

/* Reads a file of /proc/PID. Returns its length; 0 when it cannot be read. */
size_t read_proc(pid_t pid, const char *name, char *text, size_t size);
/* Opens a directory of /proc/PID, or NULL with errno. */
DIR *open_proc(pid_t pid, const char *name);
/* A thread of pid whose files in /proc describe the process: its first one, unless that has exited
 * before the others, proc(5). */
pid_t proc_thread(pid_t pid);
/* A file of the process in the form of /proc/PID/stat: what follows the name, which may contain
 * anything, in "7 (name) R 1 ...", or NULL; and a number in that. */
enum { PROC_STAT_BYTES = 512 };
const char *proc_stat(pid_t pid, const char *name, char text[PROC_STAT_BYTES]);
uint64_t proc_stat_number(const char *stat, unsigned field);
/* Its number in the innermost of its pid namespaces; 0: the process is gone. */
pid_t proc_inner_number(pid_t pid);
