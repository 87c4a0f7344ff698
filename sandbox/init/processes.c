#include "sandbox/init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    KILL_ROUNDS = 400, /* with a pause each: 400 ms, then the server gives up on the box */
    PID_SCAN = 32768,  /* where /proc is not there to be listed */
};

struct watched *watch_find(struct init *init, pid_t pid)
{
    for (unsigned i = 0; pid > 0 && i < INIT_WATCHED; i++) {
        if (init->watched[i].pid == pid) {
            return &init->watched[i];
        }
    }
    return NULL;
}

static void watch_answer(const struct wire_request *request, int error)
{
    init_send(
        &(struct wire_reply){
            .event = WIRE_ANSWER, .id = request->id, .error = error, .pid = request->pid},
        -1);
}

/* The live process of a session, with all that it starts, is the first to go when memory runs out;
 * its checkpoint goes before pid 1 and the zygote. The guest cannot set this itself: under Landlock
 * /proc is read-only to it. */
static void offer_to_memory_killer(pid_t pid, uint32_t role)
{
    char path[48];
    const char *score = role == WIRE_ROLE_SESSION ? "1000" : "300";
    (void)snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)write(fd, score, strlen(score));
        (void)close(fd);
    }
}

/* Whether pid has the tag that its session was given. */
static bool has_tag(pid_t pid, uint32_t tag)
{
    struct rlimit limit;
    return prlimit(pid, RLIMIT_MSGQUEUE, NULL, &limit) == 0 && limit.rlim_max == tag;
}

/* A session's process is our child: ended, it stays a zombie until watch_reap, and its number is not
 * reused. What code passes off as its checkpoint may be a child of its own, which it can reap: then the
 * number is nobody's, or another session's. */
static bool is_stale(const struct watched *entry)
{
    return entry->role == WIRE_ROLE_CHECKPOINT && !has_tag(entry->pid, entry->tag);
}

static struct watched *watch_free_entry(struct init *init)
{
    for (unsigned i = 0; i < INIT_WATCHED; i++) {
        if (init->watched[i].pid == 0 || is_stale(&init->watched[i])) {
            return &init->watched[i];
        }
    }
    return NULL;
}

void watch_add(struct init *init, const struct wire_request *request)
{
    pid_t pid = request->pid;
    if (pid <= 1 || pid == init->zygote || kill(pid, 0) < 0) {
        watch_answer(request, ESRCH);
        return;
    }
    /* The number is the guest's word: it may name another session's process. */
    if (!has_tag(pid, request->tag)) {
        watch_answer(request, EPERM);
        return;
    }
    struct watched *entry = watch_find(init, pid);
    entry = entry ? entry : watch_free_entry(init);
    if (!entry) {
        watch_answer(request, ENOSPC);
        return;
    }
    *entry = (struct watched){.pid = pid, .tag = request->tag, .role = request->role};
    offer_to_memory_killer(pid, request->role);
    watch_answer(request, 0);
}

void watch_signal(struct init *init, const struct wire_request *request)
{
    const struct watched *entry = watch_find(init, request->pid);
    int error = 0;
    if (request->pid != init->zygote && (!entry || is_stale(entry))) {
        error = ESRCH;
    } else if (kill(request->pid, request->signal) < 0) {
        error = errno;
    }
    init_answer(request->id, error);
}

void watch_reap(struct init *init)
{
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
        struct watched *entry = watch_find(init, pid);
        if (WIFSTOPPED(status)) {
            if (pid == init->zygote || (entry && entry->role == WIRE_ROLE_CHECKPOINT)) {
                (void)kill(pid, SIGCONT); /* by the guest's hand: nobody else could go on */
            }
            continue;
        }
        if (!entry && pid != init->zygote) {
            continue; /* an orphan of some session */
        }
        if (entry) {
            *entry = (struct watched){};
        }
        init_send(&(struct wire_reply){.event = WIRE_EXITED, .pid = pid, .status = status}, -1);
    }
}

/* Whether the server gave tag after it had sent request: the session was opened while this sweep
 * waited or went on. */
static bool tag_is_younger(rlim_t tag, const struct wire_request *request)
{
    enum { TAGS = WIRE_TAG_ZYGOTE - WIRE_TAG_LEAST };
    if (tag < WIRE_TAG_LEAST || tag >= WIRE_TAG_ZYGOTE) {
        return false;
    }
    uint32_t behind = (request->last_tag + TAGS - (uint32_t)tag) % TAGS;
    return behind > 0 && behind < TAGS / 2;
}

/* Whether pid is to die with the session that has request's tag. A tag that no session has is that
 * of a process that changed its own: it dies too. */
static bool kill_belongs(const struct init *init, pid_t pid, const struct wire_request *request)
{
    struct rlimit limit;
    struct rlimit counterpart;
    const struct watched *entry = watch_find((struct init *)(uintptr_t)init, pid);
    if (pid <= 1 || pid == init->zygote) {
        return false;
    }
    if (entry && !is_stale(entry)) {
        return entry->tag == request->tag && entry->role == WIRE_ROLE_SESSION;
    }
    if (prlimit(pid, RLIMIT_MSGQUEUE, NULL, &limit) < 0 ||
        prlimit(pid, RLIMIT_LOCKS, NULL, &counterpart) < 0) {
        return errno == EPERM; /* set-uid is off here: only a stranger would refuse */
    }
    if (limit.rlim_cur == request->tag) {
        return true;
    }
    if (limit.rlim_max == WIRE_TAG_ZYGOTE) {
        return false; /* a session that is just being forked */
    }
    if (counterpart.rlim_max != RLIM_INFINITY &&
        counterpart.rlim_max + limit.rlim_max != WIRE_TAG_SUM) {
        return true;
    }
    for (uint32_t i = 0; i < request->tag_count && i < WIRE_TAGS; i++) {
        if (request->tags[i] == limit.rlim_max) {
            return false;
        }
    }
    return !tag_is_younger(limit.rlim_max, request);
}

/* Sends signal to all that belong to the tag. Returns how many there were. */
static unsigned kill_sweep(const struct init *init, const struct wire_request *request, int signal)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    bool listed = false;
    if (dir) {
        const struct dirent *entry = NULL;
        while ((entry = readdir(dir))) {
            char *end = NULL;
            pid_t pid = (pid_t)strtoul(entry->d_name, &end, 10);
            if (end == entry->d_name || *end) {
                continue;
            }
            listed = true;
            if (kill_belongs(init, pid, request) && kill(pid, signal) == 0) {
                count++;
            }
        }
        (void)closedir(dir);
    }
    for (pid_t pid = 2; !listed && pid < PID_SCAN; pid++) {
        if (kill(pid, 0) == 0 && kill_belongs(init, pid, request) && kill(pid, signal) == 0) {
            count++;
        }
    }
    return count;
}

/* Stops first, kills then: a stopped process forks no more, so a fork bomb runs dry. */
void watch_kill_tag(struct init *init, const struct wire_request *request)
{
    unsigned before = 0;
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        unsigned now = kill_sweep(init, request, SIGSTOP);
        if (now == before) {
            break;
        }
        before = now;
    }
    int error = ETIMEDOUT;
    for (unsigned round = 0; round < KILL_ROUNDS; round++) {
        unsigned left = kill_sweep(init, request, SIGKILL);
        watch_reap(init);
        if (left == 0) {
            error = 0;
            break;
        }
        struct timespec pause = {.tv_nsec = round < 20 ? 100000 : 1000000};
        (void)nanosleep(&pause, NULL);
    }
    init_answer(request->id, error);
}
