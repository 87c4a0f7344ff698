/* The end of a box without a pid namespace. Its guardian (init/guard.c) ends everything when its socket
 * does. Should the guardian itself have been killed, its orphans are our children: the server is a
 * subreaper too. Without a guardian nobody of them can fork any more, for that asks it first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/box.h"
#include "sandbox/confine/rlimits.h"
#include "sandbox/start/child.h"

enum {
    GUARDIAN_MS = 300, /* for it to end everybody; where it is stopped itself we do it */
    SWEEPS = 200,
    SWEEP_NS = 1000000,
};

void guardian_prepare(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_leave_memory_out_of_cores();
    /* No other process of this user looks into the server's memory and descriptors, proc(5). */
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* The number behind name in a file of /proc, or -1. */
static int64_t number_behind(const char *text, const char *name)
{
    const char *rest = NULL;
    uint64_t number = 0;
    const char *at = strstr(text, name);
    at = at ? at + strlen(name) : "";
    at += strspn(at, " \t");
    return parse_digits(at, &number, &rest) == 0 && number <= INT64_MAX ? (int64_t)number : -1;
}

/* Whether a child of ours was a guest: only guests have these limits, which can be lowered and never
 * raised (rlimits.c). Our own children have the server's. */
static bool was_guest(pid_t pid)
{
    static const struct {
        const char *name;
        int64_t most;
    } limits[] = {{"Max core file size", 1},
                  {"Max open files", RLIMITS_NOFILE},
                  {"Max msgqueue size", WIRE_TAG_ZYGOTE}};
    char path[48];
    char text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof text) < 0 ||
        number_behind(text, "\nPPid:") != getpid()) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    bool limited = fd_read_text_at(AT_FDCWD, path, text, sizeof text) > 0;
    for (unsigned i = 0; limited && i < sizeof limits / sizeof *limits; i++) {
        int64_t limit = number_behind(text, limits[i].name);
        limited = limit >= 0 && limit <= limits[i].most;
    }
    return limited;
}

/* Kills the guests that are our children. Returns how many there were. */
static unsigned sweep(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry = NULL;
    unsigned count = 0;
    while (dir && (entry = readdir(dir))) {
        uint64_t pid = 0;
        if (parse_u64(entry->d_name, &pid) == 0 && pid > 1 && was_guest((pid_t)pid)) {
            count++;
            (void)kill((pid_t)pid, SIGKILL);
            (void)waitpid((pid_t)pid, NULL, WNOHANG | __WALL);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count;
}

/* What code has left in the one folder that it has in common with others, where it is known to be its. */
static void clear_shared_memory(const struct plan *plan)
{
    struct stat st;
    DIR *dir = plan->own_uid ? opendir("/dev/shm") : NULL;
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_uid == plan->outside_uid) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

static bool reap_all(struct box *box)
{
    int status = 0;
    struct pollfd ended = {.fd = box->pidfd, .events = POLLIN};
    /* Where it still waits for the group, this is the end it sees. */
    drop_fd(&box->go_fd);
    (void)shutdown(box->link.fd, SHUT_RDWR);
    if (box->pidfd < 0 || poll(&ended, 1, GUARDIAN_MS) != 1) {
        log_debug("sandbox", "the guardian does not end by itself and is killed");
        (void)kill(box->pid, SIGKILL);
    }
    while (waitpid(box->pid, &status, __WALL) < 0 && errno == EINTR) {
    }
    box->pid = 0;
    if (WIFEXITED(status)) {
        return true; /* it has ended all, and seen that */
    }
    unsigned left = sweep();
    for (unsigned i = 0; left > 0 && i < SWEEPS; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = SWEEP_NS}, NULL);
        left = sweep();
    }
    return left == 0;
}

bool guardian_reap(struct box *box)
{
    bool gone = reap_all(box);
    clear_shared_memory(&box->plan);
    return gone;
}
