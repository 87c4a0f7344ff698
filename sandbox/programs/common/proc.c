#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/proc.h"

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
    pid_t tid = 0;
    while ((tid = fd_next_number(dir)) > 0 && has_left(tid)) {
    }
    return tid > 0 ? tid : pid;
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
