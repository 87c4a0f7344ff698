#include "sandbox/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/init/tags.h"

enum {
    STOP_ROUNDS = 400,
    QUICK_ROUNDS = 20, /* with a pause each: 2 ms, in which most sessions are gone */
    QUICK_NS = 100000,
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

bool watch_spares(struct init *init, pid_t pid)
{
    const struct watched *known = watch_find(init, pid);
    return pid == init->zygote || (known && known->role == WIRE_ROLE_CHECKPOINT);
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
    struct tags tags = {};
    return tags_of(pid, &tags) == 0 && tags.hard == tag;
}

const struct watched *watch_owner(struct init *init, pid_t pid)
{
    struct tags tags = {};
    if (pid <= 1 || tags_of(pid, &tags) < 0) {
        return NULL;
    }
    for (unsigned i = 0; i < INIT_WATCHED; i++) {
        const struct watched *entry = &init->watched[i];
        if (entry->pid > 0 && entry->role == WIRE_ROLE_SESSION && entry->tag == tags.hard) {
            return entry;
        }
    }
    return NULL;
}

void watch_kill(const struct init *init, pid_t pid)
{
    if (!init->config->guards) {
        (void)kill(pid, SIGKILL);
        return;
    }
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        if (family_has(init->root, pid)) {
            (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        }
        (void)close(fd);
    }
}

/* A session's process is pid 1's child: ended, it stays a zombie until watch_reap, and its number is not
 * reused; only a lookout sees it gone. What code passes off as its checkpoint may be a child of its own, which it can reap: then the
 * number is nobody's, or another session's. */
static bool is_stale(const struct watched *entry)
{
    return entry->role == WIRE_ROLE_CHECKPOINT ? !has_tag(entry->pid, entry->tag)
                                               : kill(entry->pid, 0) < 0 && errno == ESRCH;
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
    if (pid <= 1 || pid == init->zygote || !family_has(init->root, pid) || kill(pid, 0) < 0) {
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
            if (watch_spares(init, pid)) {
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
    struct tags tags = {};
    const struct watched *entry = watch_find((struct init *)(uintptr_t)init, pid);
    if (pid <= 1 || pid == init->zygote) {
        return false;
    }
    if (entry && !is_stale(entry)) {
        return entry->tag == request->tag && entry->role == WIRE_ROLE_SESSION;
    }
    int r = tags_of(pid, &tags);
    if (r < 0) {
        return r == -EPERM; /* set-uid is off here: only a stranger would refuse */
    }
    if (tags.soft == request->tag) {
        return true;
    }
    if (tags.hard == WIRE_TAG_ZYGOTE) {
        return false; /* a session that is just being forked */
    }
    if (tags.counterpart != RLIM_INFINITY && tags.counterpart + tags.hard != WIRE_TAG_SUM) {
        return true;
    }
    for (uint32_t i = 0; i < request->tag_count && i < WIRE_TAGS; i++) {
        if (request->tags[i] == tags.hard) {
            return false;
        }
    }
    return !tag_is_younger(tags.hard, request);
}

/* Sends signal to all that belong to the tag. Returns how many there were. */
static unsigned kill_sweep(const struct init *init, const struct wire_request *request, int signal)
{
    const pid_t *pids = NULL;
    unsigned all = family_list(init->root, &pids);
    unsigned count = 0;
    for (unsigned i = 0; i < all; i++) {
        if (kill_belongs(init, pids[i], request) && kill(pids[i], signal) == 0) {
            count++;
        }
    }
    return count;
}

/* Sweeps that wait for processes which the kernel takes its time to end. At most one for each session. */
static struct wire_request sweeps[WIRE_TAGS];
static unsigned sweep_count;

static bool sweep_is_done(struct init *init, const struct wire_request *request)
{
    unsigned left = kill_sweep(init, request, SIGKILL);
    watch_reap(init);
    return left == 0;
}

/* Stops first, kills then: a stopped process forks no more, so a fork bomb runs dry. */
void watch_kill_tag(struct init *init, const struct wire_request *request)
{
    const struct timespec pause = {.tv_nsec = QUICK_NS};
    unsigned before = 0;
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        unsigned now = kill_sweep(init, request, SIGSTOP);
        if (now == before) {
            break;
        }
        before = now;
    }
    for (unsigned round = 0; round < QUICK_ROUNDS; round++) {
        if (sweep_is_done(init, request)) {
            init_answer(request->id, 0);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    if (sweep_count == WIRE_TAGS) {
        init_answer(request->id, EAGAIN);
        return;
    }
    sweeps[sweep_count++] = *request;
}

bool watch_sweep(struct init *init)
{
    for (unsigned i = 0; i < sweep_count;) {
        (void)kill_sweep(init, &sweeps[i], SIGSTOP);
        if (sweep_is_done(init, &sweeps[i])) {
            init_answer(sweeps[i].id, 0);
            sweeps[i] = sweeps[--sweep_count];
        } else {
            i++;
        }
    }
    return sweep_count > 0;
}
