#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/init/init.h"

enum {
    LOOKS = 4,
    LOOK_NS = 250000, /* between two of them */
};

/* Whether the thread runs or waits for a page: "7 (name) R ...", proc(5). The name may hold anything. */
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

/* A thread that is at work: the first one, which runs the cell, where it is one of several. 0: none. */
static pid_t thread_at_work(pid_t pid)
{
    char path[32];
    pid_t found = is_at_work(pid, pid) ? pid : 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = found ? NULL : opendir(path);
    const struct dirent *entry = NULL;
    while (dir && !found && (entry = readdir(dir))) {
        pid_t thread = (pid_t)strtoul(entry->d_name, NULL, 10);
        if (thread > 0 && is_at_work(pid, thread)) {
            found = thread;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return found;
}

/* Another program may have taken the interpreter's place, whom the signal would end. */
static bool has_handler(pid_t pid)
{
    char status[4096];
    static const char mask[] = "\nSigCgt:";
    const char *found = NULL;
    if (read_proc(pid, "status", status, sizeof status) > 0) {
        found = strstr(status, mask);
    }
    return found && strtoull(found + sizeof mask - 1, NULL, 16) >> (WIRE_TRACE_SIGNAL - 1) & 1;
}

int watch_trace(struct init *init, pid_t pid)
{
    const struct watched *entry = watch_find(init, pid);
    if (!entry || entry->role != WIRE_ROLE_SESSION || !has_handler(pid)) {
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
