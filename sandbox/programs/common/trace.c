#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/proc.h"
#include "sandbox/programs/common/processes.h"

enum {
    LOOKS = 4,
    LOOK_NS = 250000, /* between two looks */
};

/* Whether the thread runs or waits for a page: "7 (name) R ...", proc(5). The name may contain
 * anything. */
static bool is_at_work(pid_t pid, pid_t thread)
{
    char name[32];
    char text[256];
    (void)snprintf(name, sizeof name, "task/%d/stat", (int)thread);
    if (read_proc(pid, name, text, sizeof text) == 0) {
        return false;
    }
    const char *end = strrchr(text, ')');
    return end && (strncmp(end, ") R", 3) == 0 || strncmp(end, ") D", 3) == 0);
}

/* A busy thread: the first one, which runs the cell, if it is among them. 0: none. */
static pid_t thread_at_work(pid_t pid)
{
    pid_t found = is_at_work(pid, pid) ? pid : 0;
    defer_closedir DIR *dir = found ? NULL : open_proc(pid, "task");
    for (pid_t thread = 0; !found && (thread = fd_next_number(dir)) > 0;) {
        found = is_at_work(pid, thread) ? thread : 0;
    }
    return found;
}

int watch_trace(const struct processes *processes, pid_t pid)
{
    const struct watched *entry = watch_find(processes, pid);
    if (!entry || entry->role != WIRE_ROLE_SESSION) {
        return -ESRCH;
    }
    for (unsigned look = 0; look < LOOKS; look++) {
        pid_t thread = thread_at_work(pid);
        if (thread) {
            return syscall(SYS_tgkill, pid, thread, WIRE_TRACE_SIGNAL) < 0 ? -errno : 0;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return -EAGAIN;
}
