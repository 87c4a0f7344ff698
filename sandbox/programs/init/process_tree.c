#include "sandbox/init/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST = 65536,     /* processes in one /proc; what is beyond is seen when others are gone */
    PID_SCAN = 32768, /* where /proc is not there to be listed */
    DEPTH = 4096,     /* of a chain of parents */
    LOOKS = 4,        /* at a tree that changes while it is read */
    STOP_ROUNDS = 32,
    KILL_ROUNDS = 5000, /* with a pause each */
    QUICK_ROUNDS = 20,
    QUICK_NS = 100000,
    SLOW_NS = 1000000,
};

static pid_t pids[MOST];
static pid_t parents[MOST];

/* The number of the field behind the name in a line of /proc/PID/stat, which begins at 3, proc(5). */
static long stat_number(const char *behind_name, unsigned field)
{
    const char *at = behind_name;
    for (unsigned i = 3; at && i < field; i++) {
        at = strchr(at + 1, ' ');
    }
    return at ? strtol(at, NULL, 10) : 0;
}

/* The parent, 0: ended or gone. "7 (name) S 1 ...": the name may hold anything. A process whose first
 * thread has left is a zombie by its letter, and goes on while it has others. */
static pid_t parent_of(pid_t pid)
{
    enum { PARENT = 4, THREADS = 20 };
    char path[32];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    text[size > 0 ? size : 0] = '\0';
    const char *end = strrchr(text, ')');
    if (!end || !end[1] || !end[2]) {
        return 0;
    }
    const char *state = end + 2;
    bool ended = *state == 'X' || (*state == 'Z' && stat_number(state, THREADS) <= 1);
    return ended ? 0 : (pid_t)stat_number(state, PARENT);
}

/* All numbers in /proc. *ret_count: how many. Returns whether /proc could be listed. */
static bool list_proc(unsigned *ret_count)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry = NULL;
    unsigned count = 0;
    while (dir && count < MOST && (entry = readdir(dir))) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        if (end > entry->d_name && !*end) {
            pids[count++] = (pid_t)pid;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    *ret_count = count;
    return count > 0;
}

static unsigned list_namespace(void)
{
    unsigned count = 0;
    unsigned kept = 0;
    if (list_proc(&count)) {
        for (unsigned i = 0; i < count; i++) {
            if (pids[i] > 1) {
                pids[kept++] = pids[i];
            }
        }
        return kept;
    }
    for (pid_t pid = 2; pid < PID_SCAN; pid++) {
        if (kill(pid, 0) == 0) {
            pids[kept++] = pid;
        }
    }
    return kept;
}

static int compare(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a;
    pid_t y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

/* Where pid stands in the list, or -1. */
static int place_of(pid_t pid, unsigned count)
{
    const pid_t *found = bsearch(&pid, pids, count, sizeof *pids, compare);
    return found ? (int)(found - pids) : -1;
}

enum kin { STRANGER, RELATED, UNSURE };

/* Follows the parents that were read, up to root. UNSURE: one of them ended meanwhile, and who it left
 * has another parent by now. */
static enum kin kin_of(unsigned at, unsigned count, pid_t root)
{
    for (unsigned depth = 0; depth < DEPTH; depth++) {
        pid_t parent = parents[at];
        if (parent == root) {
            return RELATED;
        }
        if (parent <= 1) {
            return STRANGER;
        }
        int above = place_of(parent, count);
        if (above < 0 || parents[above] == 0) {
            return UNSURE;
        }
        at = (unsigned)above;
    }
    return UNSURE;
}

/* Reads everybody's parent once. Returns false when the tree changed too much to tell. */
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
        enum kin kin = parents[i] == 0 ? STRANGER : kin_of(i, count, root);
        related[i] = kin == RELATED;
        sure = sure && kin != UNSURE;
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

unsigned family_list(pid_t root, const pid_t **ret_pids)
{
    unsigned count = 0;
    *ret_pids = pids;
    if (root == 0) {
        return list_namespace();
    }
    /* Whoever asks in order to end them asks again: only "nobody" has to be sure. */
    for (unsigned look = 0; look < LOOKS && count == 0; look++) {
        if (look_for_descendants(root, &count)) {
            break;
        }
    }
    return count;
}

/* Adds the children of one task of a process. Returns false where there is no such list: the task is gone,
 * or the kernel has none (CONFIG_PROC_CHILDREN). */
static bool add_children_of_task(pid_t pid, pid_t tid, unsigned *count)
{
    char path[64];
    int child = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)tid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    while (*count < MOST && fscanf(file, "%d", &child) == 1) {
        pids[(*count)++] = child;
    }
    (void)fclose(file);
    return true;
}

static bool add_children(pid_t pid, unsigned *count)
{
    char path[32];
    bool listed = false;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        listed |= tid > 0 && add_children_of_task(pid, tid, count);
    }
    if (dir) {
        (void)closedir(dir);
    }
    return listed;
}

unsigned family_glance(pid_t root, const pid_t **ret_pids)
{
    unsigned count = 0;
    *ret_pids = pids;
    if (root == 0 || !add_children(root, &count)) {
        return family_list(root, ret_pids);
    }
    for (unsigned i = 0; i < count; i++) {
        (void)add_children(pids[i], &count);
    }
    return count;
}

bool family_has(pid_t root, pid_t pid)
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

/* Returns whether there are children left. */
static bool reap(void)
{
    pid_t pid = 0;
    do {
        pid = waitpid(-1, NULL, WNOHANG | __WALL);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
}

unsigned family_signal(pid_t root, int number)
{
    const pid_t *list = NULL;
    if (root == 0) {
        return kill(-1, number) == 0; /* at one stroke, kill(2) */
    }
    unsigned count = family_list(root, &list);
    for (unsigned i = 0; i < count; i++) {
        (void)kill(list[i], number);
    }
    return count;
}

/* Stopped processes fork no more, so a fork bomb runs dry. */
static void stop_all(pid_t root)
{
    unsigned before = 0;
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        unsigned now = family_signal(root, SIGSTOP);
        if (now == before) {
            return;
        }
        before = now;
    }
}

bool family_kill(pid_t root)
{
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        if (round > 0) {
            stop_all(root); /* mostly nobody is left whom that would be good for */
        }
        (void)family_signal(root, SIGKILL);
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
