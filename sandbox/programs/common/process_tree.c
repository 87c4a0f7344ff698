#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/programs/common/processes.h"

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

enum {
    MOST = 65536,     /* processes in one /proc; others are seen when some are gone */
    PID_SCAN = 32768, /* where /proc cannot be listed */
    DEPTH = 4096,     /* maximum length of a chain of parents */
    LOOKS = 4,        /* attempts to read a tree that changes meanwhile */
    STOP_ROUNDS = 32,
    KILL_ROUNDS = 5000, /* with a pause each */
    QUICK_ROUNDS = 20,
    QUICK_NS = 100000,
    SLOW_NS = 1000000,
};

static pid_t pids[MOST + 1]; /* a 0 after the last one */
static pid_t parents[MOST];

const char *proc_stat(pid_t pid, const char *name, char text[PROC_STAT_BYTES])
{
    const char *end = read_proc(pid, name, text, PROC_STAT_BYTES) > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' && end[2] ? end + 2 : NULL;
}

uint64_t proc_stat_number(const char *stat, unsigned field)
{
    for (unsigned i = 3; stat && i < field; i++) {
        stat = strchr(stat + 1, ' ');
    }
    return stat ? strtoull(stat, NULL, 10) : 0;
}

/* The parent, or 0: exited or gone. A process whose first thread has exited looks like a zombie,
 * but runs while it has other threads. */
static pid_t parent_of(pid_t pid)
{
    enum { PARENT = 4, THREADS = 20 };
    char text[PROC_STAT_BYTES];
    const char *stat = proc_stat(pid, "stat", text);
    bool ended = !stat || *stat == 'X' || (*stat == 'Z' && proc_stat_number(stat, THREADS) <= 1);
    return ended ? 0 : (pid_t)proc_stat_number(stat, PARENT);
}

/* Lists all numbers in /proc but 1. False: there are none. */
static bool list_proc(unsigned *ret_count)
{
    defer_closedir DIR *dir = opendir("/proc");
    bool any = false;
    *ret_count = 0;
    for (pid_t pid = 0; *ret_count < MOST && (pid = fd_next_number(dir)) > 0; any = true) {
        pids[*ret_count] = pid;
        *ret_count += pid > 1;
    }
    return any;
}

static unsigned list_namespace(void)
{
    unsigned count = 0;
    bool listed = list_proc(&count);
    for (pid_t pid = 2; !listed && pid < PID_SCAN; pid++) {
        if (kill(pid, 0) == 0) {
            pids[count++] = pid;
        }
    }
    return count;
}

static int compare(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a;
    pid_t y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

/* Index of pid in the list, or -1. */
static int place_of(pid_t pid, unsigned count)
{
    const pid_t *found = bsearch(&pid, pids, count, sizeof *pids, compare);
    return found ? (int)(found - pids) : -1;
}

enum descendants { UNRELATED, RELATED, UNSURE };

/* Follows the recorded parents up to root. UNSURE: one of them has exited, and its children have
 * another parent by this time. */
static enum descendants descendants_of(unsigned at, unsigned count, pid_t root)
{
    for (unsigned depth = 0; depth < DEPTH; depth++) {
        pid_t parent = parents[at];
        if (parent == root) {
            return RELATED;
        }
        if (parent <= 1) {
            return UNRELATED;
        }
        int above = place_of(parent, count);
        if (above < 0 || parents[above] == 0) {
            return UNSURE;
        }
        at = (unsigned)above;
    }
    return UNSURE;
}

/* Reads every process's parent once. Returns false when the tree changed too much for a result. */
static bool look_for_descendants(pid_t root, unsigned *ret_kept)
{
    static bool related[MOST];
    unsigned count = 0;
    bool sure = list_proc(&count);
    qsort(pids, count, sizeof *pids, compare);
    for (unsigned i = 0; i < count; i++) {
        parents[i] = parent_of(pids[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        enum descendants descendants = parents[i] == 0 ? UNRELATED : descendants_of(i, count, root);
        related[i] = descendants == RELATED;
        sure = sure && descendants != UNSURE;
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        if (related[i]) {
            pids[kept++] = pids[i];
        }
    }
    *ret_kept = kept;
    return sure;
}

const pid_t *process_tree_list(pid_t root)
{
    unsigned count = root == 0 ? list_namespace() : 0;
    bool sure = root == 0;
    /* A caller that kills them calls again, so only an empty result must be certain. */
    for (unsigned look = 0; look < LOOKS && count == 0 && !sure; look++) {
        sure = look_for_descendants(root, &count);
    }
    pids[count] = 0;
    return pids;
}

/* Adds the children of one task of a process. Returns false where there is no such list: the task
 * is gone, or the kernel lacks it (CONFIG_PROC_CHILDREN). */
static bool add_children_of_task(pid_t pid, pid_t tid, unsigned *count)
{
    char path[64];
    defer_free char *child = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)tid);
    defer_fclose FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    /* Without fscanf(3), which alone makes the program 100 KB larger. */
    while (*count < MOST && getdelim(&child, &size, ' ', file) > 1) {
        pids[(*count)++] = (pid_t)strtol(child, NULL, 10);
    }
    return true;
}

static bool add_children(pid_t pid, unsigned *count)
{
    bool listed = false;
    defer_closedir DIR *dir = open_proc(pid, "task");
    for (pid_t tid = 0; (tid = fd_next_number(dir)) > 0;) {
        listed |= add_children_of_task(pid, tid, count);
    }
    return listed;
}

const pid_t *process_tree_glance(pid_t root)
{
    unsigned count = 0;
    if (root == 0 || !add_children(root, &count)) {
        return process_tree_list(root);
    }
    for (unsigned i = 0; i < count; i++) {
        (void)add_children(pids[i], &count);
    }
    pids[count] = 0;
    return pids;
}

bool process_tree_ended(pid_t pid)
{
    return pid > 1 && parent_of(pid) == 0;
}

bool process_tree_has(pid_t root, pid_t pid)
{
    if (root == 0) {
        return pid > 1;
    }
    for (unsigned look = 0; look < LOOKS; look++) {
        pid_t above = pid;
        for (unsigned depth = 0; above > 1 && depth < DEPTH; depth++) {
            above = parent_of(above);
            if (above == root) {
                return true;
            }
        }
        if (above == 1) {
            return false;
        }
    }
    return false;
}

/* Returns whether any children are left. */
static bool reap(void)
{
    pid_t pid = 0;
    do {
        pid = waitpid(-1, NULL, WNOHANG | __WALL);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
}

unsigned process_tree_signal(pid_t root, int number)
{
    unsigned count = 0;
    if (root == 0) {
        return kill(-1, number) == 0; /* atomic, kill(2) */
    }
    for (const pid_t *pid = process_tree_list(root); *pid; pid++) {
        (void)kill(*pid, number);
        count++;
    }
    return count;
}

/* Stopped processes cannot fork, so a fork bomb cannot grow. */
static void stop_all(pid_t root)
{
    unsigned before = 0;
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        unsigned now = process_tree_signal(root, SIGSTOP);
        if (now == before) {
            return;
        }
        before = now;
    }
}

bool process_tree_kill(pid_t root)
{
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        if (round > 0) {
            stop_all(root); /* usually no process is left */
        }
        (void)process_tree_signal(root, SIGKILL);
        if (!reap()) {
            return true;
        }
        struct timespec pause = {.tv_nsec = round < QUICK_ROUNDS ? QUICK_NS : SLOW_NS};
        (void)nanosleep(&pause, NULL);
        if (!reap()) {
            return true;
        }
    }
    return false;
}
