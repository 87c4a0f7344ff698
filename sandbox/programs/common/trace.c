#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/proc.h"
#include "sandbox/programs/common/processes.h"
#include "sandbox/programs/common/reply.h"

enum {
    STAT_BYTES = 512,
    LOOKS = 4,
    LOOK_NS = 250000, /* between two looks */
};

/* What follows the name, which may contain anything, in "7 (name) R ...", proc(5); or NULL. */
static const char *read_stat(pid_t pid, const char *name, char text[STAT_BYTES])
{
    const char *end = read_proc(pid, name, text, STAT_BYTES) > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' ? end + 2 : NULL;
}

/* Whether a thread with this state runs or waits for a page. */
static bool is_busy(const char *state)
{
    return state && (*state == 'R' || *state == 'D');
}

static bool is_at_work(pid_t pid, pid_t thread)
{
    char name[32];
    char text[STAT_BYTES];
    (void)snprintf(name, sizeof name, "task/%d/stat", (int)thread);
    return is_busy(read_stat(pid, name, text));
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

void watch_look(const struct processes *processes, const struct wire_request *request, pid_t pid)
{
    enum { MS_A_TICK = 10, STATE = 3, USER = 14 }; /* fields; USER_HZ is 100 everywhere */
    char text[STAT_BYTES];
    const char *state = watch_find(processes, pid) ? read_stat(pid, "stat", text) : NULL;
    const char *at = state;
    for (unsigned field = STATE; at && field < USER; field++) {
        at = strchr(at + 1, ' ');
    }
    char *end = NULL;
    uint64_t ticks = at ? strtoull(at, &end, 10) : 0;
    ticks += at ? strtoull(end, NULL, 10) : 0;
    reply_send(&(struct wire_reply){.event = WIRE_RESPONSE,
                                    .id = request->id,
                                    .error = at ? 0 : ESRCH,
                                    .pid = request->pid,
                                    .idle = at && !is_busy(state),
                                    .cpu_ms = ticks * MS_A_TICK},
               -1);
}
