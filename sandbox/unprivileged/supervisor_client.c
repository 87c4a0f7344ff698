/* The end of a sandbox without a pid namespace. Its supervisor
 * (programs/init/supervisor/supervisor.c) kills everything when its socket ends. If the supervisor
 * itself was killed, its orphans become children of the server, which is a subreaper too. Without a
 * supervisor no orphan can fork any more, because it handles fork notifications. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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
#include "sandbox/box/box.h"
#include "sandbox/launch/child.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/unprivileged/unprivileged.h"

enum {
    SUPERVISOR_MS =
        300, /* for it to kill all processes; if it is stopped itself, the server does that */
    SWEEPS = 200,
    SWEEP_NS = 1000000,
};

void supervisor_prepare(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_leave_memory_out_of_cores();
    /* Keeps the user's other processes from reading the server's memory and descriptors, see
     * proc(5). */
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* Whether a child of the server was a guest: only guests have these limits, which can be lowered
 * and never raised (rlimits.c). The server's own children have its limits. */
static bool was_guest(pid_t pid)
{
    static const struct {
        const char *name;
        uint64_t most;
    } limits[] = {{"Max core file size", 1},
                  {"Max pending signals", RLIMITS_SIGPENDING},
                  {"Max msgqueue size", WIRE_TAG_ZYGOTE}};
    char path[48];
    char text[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof text) < 0 ||
        parse_field(text, "PPid:", 0) != (uint64_t)getpid()) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    bool limited = fd_read_text_at(AT_FDCWD, path, text, sizeof text) > 0;
    for (unsigned i = 0; limited && i < sizeof limits / sizeof *limits; i++) {
        limited = parse_field(text, limits[i].name, UINT64_MAX) <= limits[i].most;
    }
    return limited;
}

/* Kills the guests that are the server's children. Returns their number. */
static unsigned sweep(void)
{
    defer_closedir DIR *dir = opendir("/proc");
    unsigned count = 0;
    for (pid_t pid = 0; (pid = fd_next_number(dir)) > 0;) {
        if (pid > 1 && was_guest(pid)) {
            count++;
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, WNOHANG | __WALL);
        }
    }
    return count;
}

/* Removes what code has left in the one directory that it shares with others, if its ownership is
 * certain. */
static void clear_shared_memory(const struct plan *plan)
{
    struct stat st;
    defer_closedir DIR *dir = plan->own_uid ? opendir("/dev/shm") : NULL;
    for (const char *name = NULL; dir && (name = fd_next_name(dir));) {
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_uid == plan->outside_uid) {
            (void)unlinkat(dirfd(dir), name, 0);
        }
    }
}

static bool reap_all(struct box *box)
{
    int status = 0;
    struct pollfd ended = {.fd = box->child.pidfd, .events = POLLIN};
    /* If the child still waits for its group, this ends the wait. */
    drop_fd(&box->child.go_fd);
    (void)shutdown(box->init.fd, SHUT_RDWR);
    if (box->child.pidfd < 0 || poll(&ended, 1, SUPERVISOR_MS) != 1) {
        log_debug("sandbox", "the supervisor did not exit and is being killed");
        (void)kill(box->child.pid, SIGKILL);
    }
    while (waitpid(box->child.pid, &status, __WALL) < 0 && errno == EINTR) {
    }
    box->child.pid = 0;
    if (WIFEXITED(status)) {
        return true; /* it has killed all processes and checked that */
    }
    unsigned left = sweep();
    for (unsigned i = 0; left > 0 && i < SWEEPS; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = SWEEP_NS}, NULL);
        left = sweep();
    }
    return left == 0;
}

bool supervisor_reap(struct box *box)
{
    bool gone = reap_all(box);
    clear_shared_memory(&box->plan);
    return gone;
}
