#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The processes of a sandbox, in the caller's /proc. root 0: the caller is pid 1 of a pid
 * namespace, and all other processes in it belong. Otherwise: the descendants of the process root,
 * which is a subreaper, so that none can leave by losing its parent (PR_SET_CHILD_SUBREAPER,
 * prctl(2)). */

/* Returns a static list that ends with 0 and is valid until the next call. While the tree changes,
 * processes may be missing, but the list is not empty then. Contains neither root itself nor
 * descendants that have exited and are not reaped. */
const pid_t *process_tree_list(pid_t root);

/* The same, cheap on a machine with many processes: reads the children from the parents' tasks. A
 * process whose sibling exits meanwhile may be missing, proc(5), and code can provoke that: use
 * process_tree_list() periodically. May contain processes that have exited. */
const pid_t *process_tree_glance(pid_t root);

/* Whether pid has exited, reaped or not. */
bool process_tree_ended(pid_t pid);

/* Whether pid is one of them, by its parents up to root. */
bool process_tree_has(pid_t root, pid_t pid);

/* Sends a signal to all of them, to descendants one by one: processes that are forked or orphaned
 * meanwhile may be missed. Returns their number; for a namespace only whether there were any. */
unsigned process_tree_signal(pid_t root, int number);

/* For root itself, which reaps: kills all its descendants and returns when it has no child left,
 * which for a subreaper means that none exists. Forks must not succeed meanwhile: notifications
 * must stay unserved. Gives up after some seconds when the kernel does not release a process.
 * Returns whether all are gone. */
bool process_tree_kill(pid_t root);

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
