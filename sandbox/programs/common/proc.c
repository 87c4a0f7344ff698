#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/programs/common/proc.h"
#include "sandbox/protocol/init_protocol.h"

size_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    defer_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    size_t have = 0;
    ssize_t length = 0;
    do {
        length = read(fd, text + have, size - 1 - have);
        have += length > 0 ? (size_t)length : 0;
    } while (length > 0 && have + 1 < size);
    text[have] = '\0';
    return have;
}

DIR *open_proc(pid_t pid, const char *name)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return opendir(path);
}

static bool has_left(pid_t tid)
{
    char text[256];
    const char *state =
        read_proc(tid, "status", text, sizeof text) > 0 ? strstr(text, "\nState:\t") : NULL;
    return !state || state[strlen("\nState:\t")] == 'Z' || state[strlen("\nState:\t")] == 'X';
}

pid_t proc_thread(pid_t pid)
{
    if (!has_left(pid)) {
        return pid;
    }
    defer_closedir DIR *dir = open_proc(pid, "task");
    const struct dirent *entry = NULL;
    pid_t found = pid;
    while (dir && found == pid && (entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = tid > 0 && !has_left(tid) ? tid : pid;
    }
    return found;
}

/* The last number of "NSpid:\t4711\t12": proc(5), Linux 4.1. */
pid_t proc_inner_number(pid_t pid)
{
    static char status[PROC_STATUS_BYTES];
    static const char name[] = "\nNSpid:";
    const char *at =
        read_proc(pid, "status", status, sizeof status) > 0 ? strstr(status, name) : NULL;
    long number = 0;
    char *end = NULL;
    for (at = at ? at + sizeof name - 1 : NULL; at && *at && *at != '\n'; at = end) {
        number = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
    }
    return (pid_t)number;
}

/* The number at column of the row that begins with name in /proc/PID/limits. */
static rlim_t limit_in(const char *limits, const char *name, unsigned column)
{
    const char *at = strstr(limits, name);
    if (!at) {
        return RLIM_INFINITY;
    }
    at += strlen(name);
    for (unsigned i = 0; i < column; i++) {
        at += strspn(at, " ");
        at += strcspn(at, " \n");
    }
    at += strspn(at, " ");
    return *at >= '0' && *at <= '9' ? strtoul(at, NULL, 10) : RLIM_INFINITY;
}

/* prlimit(2) refuses a guest with a separate uid: it checks the real ids. */
int tags_of(pid_t pid, struct tags *ret_tags)
{
    char text[4096];
    struct rlimit limit;
    struct rlimit counterpart;
    if (prlimit(pid, RLIMIT_MSGQUEUE, NULL, &limit) == 0 &&
        prlimit(pid, RLIMIT_LOCKS, NULL, &counterpart) == 0) {
        *ret_tags = (struct tags){limit.rlim_cur, limit.rlim_max, counterpart.rlim_max,
                                  counterpart.rlim_cur};
        return 0;
    }
    int error = errno;
    if (error != EPERM || read_proc(pid, "limits", text, sizeof text) == 0) {
        return -error;
    }
    *ret_tags = (struct tags){.soft = limit_in(text, "Max msgqueue size", 0),
                              .hard = limit_in(text, "Max msgqueue size", 1),
                              .counterpart = limit_in(text, "Max file locks", 1),
                              .cell = limit_in(text, "Max file locks", 0)};
    return 0;
}

uint32_t tags_id(const struct tags *tags)
{
    rlim_t sum = WIRE_TAG_SUM - tags->hard * WIRE_BRANCHES;
    if (tags->hard > WIRE_TAG_ZYGOTE || tags->hard == 0) {
        return 0;
    }
    if (tags->counterpart == RLIM_INFINITY) {
        return (uint32_t)tags->hard;
    }
    return tags->counterpart <= sum && sum - tags->counterpart < WIRE_BRANCHES
               ? (uint32_t)(tags->hard | (sum - tags->counterpart) << WIRE_BRANCH_SHIFT)
               : 0;
}

bool tags_same(pid_t one, pid_t other)
{
    struct tags a = {};
    struct tags b = {};
    return tags_of(one, &a) == 0 && tags_of(other, &b) == 0 && a.hard == b.hard &&
           a.counterpart == b.counterpart && (a.hard == WIRE_TAG_ZYGOTE || tags_id(&a) != 0);
}
