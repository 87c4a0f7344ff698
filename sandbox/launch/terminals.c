/* Pseudo-terminals of the sandbox's own, devpts(4): another instance, so no terminal of the host is
 * in it. The slaves have no permissions and the mount is read-only, so that nobody can open one by
 * name or change that: only the holder of the master gets its slave (TIOCGPTPEER, as openpty(3) of
 * glibc 2.27 does), and sessions, which have the same id, cannot reach each other's.
 *
 * The kernel wants an id 0 to own /dev/pts/ptmx (mknod_ptmx() in fs/devpts/inode.c), and the
 * sandbox has none. So a process in a user namespace below makes the file system: there, the
 * sandbox's id is 0. It works while the child builds the root, and ends before any guest exists;
 * nobody can enter that namespace, which only the file system keeps. */
#include "sandbox/launch/terminals.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/plan/plan.h"

enum { NO_DESCRIPTOR = 255 };

/* max: what a terminal buffers (64 KiB each way) counts for no control group, tty_buffer.c. */
static const char options[] = "newinstance,ptmxmode=666,mode=0,max=32";

static bool become_root(void)
{
    char map[32];
    (void)snprintf(map, sizeof map, "0 %d 1", PLAN_INSIDE_ID);
    return fd_write_text_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0 &&
           fd_write_text_at(AT_FDCWD, "/proc/self/uid_map", map) == 0 &&
           fd_write_text_at(AT_FDCWD, "/proc/self/gid_map", map) == 0;
}

/* The mount's descriptor, or -1. The mount namespace that it is made in ends with this process, and
 * with it what the mount covers there. */
static int make(const char *path)
{
    if (!become_root() ||
        mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC | MS_RDONLY, options) < 0) {
        return -1;
    }
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

pid_t terminals_begin(const char *path)
{
    /* It shares the descriptors with this process, and exits with the number of one, without a
     * signal. */
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_FILES, NULL, NULL,
                               NULL, NULL);
    if (pid == 0) {
        int fd = make(path);
        _exit(fd >= 0 && fd < NO_DESCRIPTOR ? fd : NO_DESCRIPTOR);
    }
    return pid;
}

int terminals_take(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, __WALL) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) == NO_DESCRIPTOR) {
        errno = EPERM;
        return -1;
    }
    return WEXITSTATUS(status);
}
