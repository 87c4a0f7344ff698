#include "sandbox/programs/common/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "sandbox/checkpoint_policy.h"
#include "sandbox/programs/common/memory.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/packet.h"

/* --- replies to the server --- */

void reply_send_fds(const struct wire_reply *reply, const int *fds, size_t count)
{
    ssize_t sent = packet_send(WIRE_INIT_FD, reply, wire_reply_size(reply), fds, count, 0);
    if (sent == -ETOOMANYREFS) { /* the guest has as many in transit as the user may have */
        struct wire_reply refused = *reply;
        refused.error = ETOOMANYREFS;
        sent = packet_send(WIRE_INIT_FD, &refused, wire_reply_size(&refused), NULL, 0, 0);
    }
    if (sent < 0) {
        (void)shutdown(WIRE_INIT_FD, SHUT_RDWR);
    }
}

void reply_send(const struct wire_reply *reply, int fd)
{
    reply_send_fds(reply, &fd, fd >= 0);
}

void reply_note(const struct wire_reply *reply)
{
    (void)packet_send(WIRE_INIT_FD, reply, wire_reply_size(reply), NULL, 0, MSG_DONTWAIT);
}

void reply_result(uint32_t id, int error)
{
    reply_send(&(struct wire_reply){.event = WIRE_RESPONSE, .id = id, .error = error}, -1);
}

/* --- tags --- */

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
    return parse_is_digit(*at) ? strtoul(at, NULL, 10) : RLIM_INFINITY;
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

/* As tags_id_of(). */
static uint32_t tags_id(const struct tags *tags)
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

uint32_t tags_id_of(pid_t pid)
{
    struct tags tags = {};
    return tags_of(pid, &tags) == 0 ? tags_id(&tags) : 0;
}

bool tags_same(pid_t one, pid_t other)
{
    struct tags a = {};
    struct tags b = {};
    return tags_of(one, &a) == 0 && tags_of(other, &b) == 0 && a.hard == b.hard &&
           a.counterpart == b.counterpart && (a.hard == WIRE_TAG_ZYGOTE || tags_id(&a) != 0);
}

/* --- processes --- */

enum {
    LOOKS = 4,
    LOOK_NS = 250000, /* between two looks */
};

/* Whether a thread with this state runs or waits for a page. */
static bool is_busy(const char *state)
{
    return state && (*state == 'R' || *state == 'D');
}

static bool is_at_work(pid_t pid, pid_t thread)
{
    char name[32];
    char text[PROC_STAT_BYTES];
    (void)snprintf(name, sizeof name, "task/%d/stat", (int)thread);
    return is_busy(proc_stat(pid, name, text));
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

/* Responds with what a watched process does. */
static void watch_look(struct processes *processes, const struct wire_request *request, pid_t pid)
{
    enum { MS_A_TICK = 10, USER = 14, SYSTEM }; /* fields; USER_HZ is 100 everywhere */
    char text[PROC_STAT_BYTES];
    const char *stat = watch_find(processes, pid) ? proc_stat(pid, "stat", text) : NULL;
    uint64_t ticks = proc_stat_number(stat, USER) + proc_stat_number(stat, SYSTEM);
    reply_send(&(struct wire_reply){.event = WIRE_RESPONSE,
                                    .id = request->id,
                                    .error = stat ? 0 : ESRCH,
                                    .pid = request->pid,
                                    .idle = stat && !is_busy(stat),
                                    .cpu_ms = ticks * MS_A_TICK},
               -1);
}

static void serve_trace(struct processes *processes, const struct wire_request *request, pid_t pid)
{
    reply_result(request->id, -watch_trace(processes, pid));
}

enum {
    STOP_ROUNDS = 400,
    QUICK_ROUNDS = 20, /* with a pause each: 2 ms, in which most sessions exit */
    QUICK_NS = 100000,
    NAME_BYTES = 100, /* of a command, and a NUL */
};

static struct watched *find_entry(struct processes *processes, pid_t pid)
{
    for (unsigned i = 0; pid > 0 && i < PROCESSES_WATCHED; i++) {
        if (processes->watched[i].pid == pid) {
            return &processes->watched[i];
        }
    }
    return NULL;
}

const struct watched *watch_find(const struct processes *processes, pid_t pid)
{
    return find_entry((struct processes *)(uintptr_t)processes, pid);
}

bool watch_spares(const struct processes *processes, pid_t pid)
{
    const struct watched *known = watch_find(processes, pid);
    return pid == processes->zygote || pid == processes->keeper ||
           (known && known->role == WIRE_ROLE_CHECKPOINT);
}

static void watch_respond(const struct wire_request *request, int error)
{
    reply_send(
        &(struct wire_reply){
            .event = WIRE_RESPONSE, .id = request->id, .error = error, .pid = request->pid},
        -1);
}

void watch_offer(const struct processes *processes, pid_t pid, uint32_t tag, bool is_live)
{
    char path[48];
    char have[16] = "";
    bool is_first = is_live && (!processes->fills || processes->fills == tag);
    const char *score = is_first ? CHECKPOINT_OOM_SCORE_LIVE : CHECKPOINT_OOM_SCORE_SUSPENDED;
    (void)snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    (void)fd_read_text_at(AT_FDCWD, path, have, sizeof have); /* cheap; a write goes through all */
    if (strncmp(have, score, strlen(score)) != 0) {
        (void)fd_write_text_at(AT_FDCWD, path, score);
    }
}

bool watch_shared(const struct processes *processes)
{
    unsigned sessions = 0;
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        sessions +=
            processes->watched[i].pid > 0 && processes->watched[i].role == WIRE_ROLE_SESSION;
    }
    return sessions > 1;
}

const struct watched *watch_owner(const struct processes *processes, pid_t pid)
{
    uint32_t tag = pid > 1 ? tags_id_of(pid) : 0;
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        const struct watched *entry = &processes->watched[i];
        if (entry->pid > 0 && entry->role == WIRE_ROLE_SESSION && entry->tag == tag) {
            return entry;
        }
    }
    return NULL;
}

void watch_kill(const struct processes *processes, pid_t pid)
{
    if (!processes->guards) {
        (void)kill(pid, SIGKILL);
        return;
    }
    defer_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && process_tree_has(processes->root, pid)) {
        (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    }
}

/* A session's process is a child of init: after its exit it stays a zombie until watch_reap, and
 * its number is not reused; only a process monitor sees it disappear. What code presents as its
 * checkpoint may be a child of its own, which it can reap: then the number is free, or another
 * session's. */
static bool is_stale(const struct watched *entry)
{
    return entry->role == WIRE_ROLE_CHECKPOINT ? tags_id_of(entry->pid) != entry->tag
                                               : kill(entry->pid, 0) < 0 && errno == ESRCH;
}

static struct watched *watch_free_entry(struct processes *processes)
{
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        if (processes->watched[i].pid == 0) {
            return &processes->watched[i];
        }
    }
    for (unsigned i = 0; i < PROCESSES_WATCHED; i++) {
        if (is_stale(&processes->watched[i])) { /* two system calls, so only where it must be */
            return &processes->watched[i];
        }
    }
    return NULL;
}

static void watch_add(struct processes *processes, const struct wire_request *request, pid_t pid)
{
    if (request->role == WIRE_ROLE_ZYGOTE || request->role == WIRE_ROLE_KEEPER) {
        *(request->role == WIRE_ROLE_ZYGOTE ? &processes->zygote : &processes->keeper) = pid;
        return;
    }
    if (pid <= 1 || pid == processes->zygote || pid == processes->keeper ||
        !process_tree_has(processes->root, pid) || kill(pid, 0) < 0) {
        watch_respond(request, ESRCH);
        return;
    }
    /* The guest sent the number: it may be another session's process. */
    if (tags_id_of(pid) != request->tag) {
        watch_respond(request, EPERM);
        return;
    }
    struct watched *entry = find_entry(processes, pid);
    entry = entry ? entry : watch_free_entry(processes);
    if (!entry) {
        watch_respond(request, ENOSPC);
        return;
    }
    static uint64_t order;
    *entry =
        (struct watched){.pid = pid, .tag = request->tag, .role = request->role, .order = ++order};
    watch_offer(processes, pid, request->tag, request->role == WIRE_ROLE_SESSION);
    watch_respond(request, 0);
}

/* Whether pid's exit will be reported: no process but its parent can reap it. Sets errno. */
static bool is_child(pid_t pid)
{
    return waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

static void watch_signal(struct processes *processes, const struct wire_request *request, pid_t pid)
{
    const struct watched *entry = watch_find(processes, pid);
    bool is_zygote = pid == processes->zygote && request->tag == WIRE_TAG_ZYGOTE;
    int error = 0;
    /* Until init has refused to watch it, the server takes for a checkpoint whatever pid the guest
     * has sent: the tag keeps the signal within the guest's own session. */
    if (!is_zygote && (!entry || entry->tag != request->tag || is_stale(entry))) {
        error = ESRCH;
    } else if (kill(pid, request->signal) < 0 || (request->signal == SIGKILL && !is_child(pid))) {
        error = errno;
    }
    reply_result(request->id, error);
}

void watch_reap(struct processes *processes)
{
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
        struct watched *entry = find_entry(processes, pid);
        if (WIFSTOPPED(status)) {
            if (watch_spares(processes, pid)) {
                (void)kill(pid,
                           SIGCONT); /* stopped by the guest: it could not continue by itself */
            }
            continue;
        }
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !processes->guards) {
            objects_drop_segments(); /* maybe they fill the memory that it was killed for */
        }
        if (!entry && pid != processes->zygote) {
            if (processes->on_other) { /* an orphan of some session, or the caller's own */
                processes->on_other(pid, status);
            }
            continue;
        }
        if (entry) {
            *entry = (struct watched){};
        }
        reply_send(&(struct wire_reply){.event = WIRE_EXITED, .pid = pid, .status = status}, -1);
    }
}

/* Whether the server assigned tag after it had sent request: the session was opened while this
 * sweep waited or ran. */
static bool tag_is_younger(rlim_t tag, const struct wire_request *request)
{
    enum { TAGS = WIRE_TAG_ZYGOTE - WIRE_TAG_LEAST };
    if (tag < WIRE_TAG_LEAST || tag >= WIRE_TAG_ZYGOTE) {
        return false;
    }
    uint32_t behind = (request->last_tag + TAGS - (uint32_t)tag) % TAGS;
    return behind > 0 && behind < TAGS / 2;
}

/* Whether the request's cell has started pid, or one of its ancestors. What has exited is left to
 * its parent, which lives. */
static bool is_of_cell(pid_t pid, const struct wire_request *request)
{
    struct tags tags = {};
    return tags_of(pid, &tags) == 0 && tags_id(&tags) == request->tag &&
           tags.cell == request->cell && !process_tree_ended(pid);
}

/* Whether pid must be killed with the session that has request's tag. A process whose tag belongs
 * to no session has changed its tag: it is killed, too. */
static bool kill_belongs(const struct processes *processes, pid_t pid,
                         const struct wire_request *request)
{
    struct tags tags = {};
    const struct watched *entry = watch_find(processes, pid);
    if (pid <= 1 || pid == processes->zygote || pid == processes->keeper) {
        return false;
    }
    if (entry && !is_stale(entry)) {
        return entry->tag == request->tag && entry->role == WIRE_ROLE_SESSION && request->cell == 0;
    }
    if (request->cell > 0) {
        return is_of_cell(pid, request);
    }
    int r = tags_of(pid, &tags);
    if (r < 0) {
        return r == -EPERM; /* set-uid is off here: only an unrelated process would refuse */
    }
    uint32_t id = tags_id(&tags);
    rlim_t session = WIRE_TAG_OF_SESSION(request->tag);
    if (id == request->tag || (tags.soft == session && tags.hard != session)) {
        return true;
    }
    if (tags.hard >= WIRE_TAG_ZYGOTE) {
        return false; /* a session that is just being forked, or a fork of init, above all tags */
    }
    for (uint32_t i = 0; id > 0 && i < request->tag_count && i < WIRE_TAGS; i++) {
        bool is_other_session = tags.hard != session; /* of which a new branch may be unknown */
        if (request->tags[i] == id ||
            (is_other_session && WIRE_TAG_OF_SESSION(request->tags[i]) == tags.hard)) {
            return false;
        }
    }
    /* With a branch's end, an unknown branch of the same session is spared: it may be a new one. It
     * ends with the session at the latest. */
    return id == 0 ||
           (tags.hard == session ? request->tag == session : !tag_is_younger(tags.hard, request));
}

/* Sends signal to all processes with the tag. Returns their number. */
static unsigned kill_sweep(const struct processes *processes, const struct wire_request *request,
                           int signal)
{
    unsigned count = 0;
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        count += kill_belongs(processes, *pid, request) && kill(*pid, signal) == 0;
    }
    return count;
}

/* Whether a cell has started pid, which runs. */
static bool is_started(const struct processes *processes, pid_t pid, struct tags *ret_tags)
{
    return !watch_find(processes, pid) && !process_tree_ended(pid) && tags_of(pid, ret_tags) == 0 &&
           ret_tags->cell > 0;
}

/* Sweeps that wait for processes which the kernel is slow to end. A session has at most two: of a
 * cell, and of all. */
static struct sweep {
    struct wire_request request;
    uint32_t processes;
    char names[WIRE_NAMES_BYTES];
} sweeps[2 * WIRE_TAGS];
static unsigned sweep_count;

/* Adds a line with the process's command, as far as there is space: whatever the code has made of
 * it. A fork of the interpreter has the zygote's. */
static void add_name(const struct processes *processes, pid_t pid, char names[WIRE_NAMES_BYTES])
{
    char line[NAME_BYTES];
    char own[NAME_BYTES];
    size_t size = read_proc(pid, "cmdline", line, sizeof line);
    size_t own_size = read_proc(processes->zygote, "cmdline", own, sizeof own);
    size_t before = strlen(names);
    if (size > 0 && size == own_size && memcmp(line, own, size) == 0) {
        size = (size_t)snprintf(line, sizeof line, "a fork of the interpreter") + 1;
    }
    for (size_t i = 0; i + 1 < size; i++) {
        if (line[i] == '\0' || line[i] == '\n') {
            line[i] = ' ';
        }
    }
    if (size == sizeof line - 1) {
        memcpy(line + size - strlen("..."), "...", strlen("..."));
    }
    if (size > 1 && before + size < WIRE_NAMES_BYTES) {
        (void)snprintf(names + before, WIRE_NAMES_BYTES - before, "%s%s", before ? "\n" : "", line);
    }
}

/* Counts and names the processes of the session's cells that run and will be killed, without the
 * interpreter and what it has forked between cells for its checkpoint. */
static void note_started(const struct processes *processes, struct sweep *sweep)
{
    const struct wire_request *request = &sweep->request;
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        struct tags tags = {};
        if (kill_belongs(processes, *pid, request) && is_started(processes, *pid, &tags) &&
            tags_id(&tags) == request->tag) {
            sweep->processes++;
            add_name(processes, *pid, sweep->names);
        }
    }
}

/* Responds with how many processes run that code has started. */
static void watch_count(struct processes *processes, const struct wire_request *request, pid_t)
{
    struct wire_reply reply = {.event = WIRE_RESPONSE, .id = request->id};
    for (const pid_t *pid = process_tree_list(processes->root); *pid; pid++) {
        struct tags tags = {};
        reply.processes += !watch_spares(processes, *pid) && is_started(processes, *pid, &tags) &&
                           tags_id(&tags) > 0 && tags.hard != WIRE_TAG_ZYGOTE;
    }
    reply_send(&reply, -1);
}

static bool sweep_is_done(struct processes *processes, const struct sweep *sweep)
{
    unsigned left = kill_sweep(processes, &sweep->request, SIGKILL);
    watch_reap(processes);
    return left == 0;
}

static void sweep_respond(const struct sweep *sweep, int error)
{
    struct wire_reply reply = {.event = WIRE_RESPONSE,
                               .id = sweep->request.id,
                               .error = error,
                               .pid = sweep->request.pid,
                               .processes = sweep->processes};
    memcpy(reply.path, sweep->names, sizeof sweep->names);
    reply_send(&reply, -1);
}

/* Stops first, then kills: stopped processes cannot fork, so a fork bomb cannot grow. Responds when
 * no such process is left, however long the kernel takes: see watch_sweep(). */
static void watch_kill_tag(struct processes *processes, const struct wire_request *request, pid_t)
{
    const struct timespec pause = {.tv_nsec = QUICK_NS};
    unsigned before = 0;
    for (unsigned round = 0; round < STOP_ROUNDS; round++) {
        unsigned now = kill_sweep(processes, request, SIGSTOP);
        if (now == before) {
            break;
        }
        before = now;
    }
    struct sweep sweep = {.request = *request};
    if (before > 0) {
        note_started(processes, &sweep);
    }
    for (unsigned round = 0; round < QUICK_ROUNDS; round++) {
        if (sweep_is_done(processes, &sweep)) {
            sweep_respond(&sweep, 0);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    if (sweep_count == sizeof sweeps / sizeof *sweeps) {
        sweep_respond(&sweep, EAGAIN);
        return;
    }
    sweeps[sweep_count++] = sweep;
}

bool watch_sweep(struct processes *processes)
{
    for (unsigned i = 0; i < sweep_count;) {
        (void)kill_sweep(processes, &sweeps[i].request, SIGSTOP);
        if (sweep_is_done(processes, &sweeps[i])) {
            sweep_respond(&sweeps[i], 0);
            sweeps[i] = sweeps[--sweep_count];
        } else {
            i++;
        }
    }
    return sweep_count > 0;
}

/* For the process monitor, which knows processes by their numbers outside. 0: none has this one. */
static pid_t outer_number(const struct processes *processes, pid_t inner)
{
    const pid_t *pid = process_tree_list(processes->root);
    while (*pid && proc_inner_number(*pid) != inner) {
        pid++;
    }
    return *pid;
}

bool watch_serve(struct processes *processes, const struct wire_request *request)
{
    static void (*const serve[WIRE_OP_COUNT])(struct processes *, const struct wire_request *,
                                              pid_t) = {
        [WIRE_WATCH] = watch_add,         [WIRE_SIGNAL] = watch_signal, [WIRE_TRACE] = serve_trace,
        [WIRE_LOOK] = watch_look,         [WIRE_COUNT] = watch_count,   [WIRE_RANK] = watch_rank,
        [WIRE_KILL_TAG] = watch_kill_tag,
    };
    bool serves = request->op < WIRE_OP_COUNT && serve[request->op];
    if (serves) {
        pid_t pid = request->pid;
        bool is_inner = processes->outside && request->op != WIRE_KILL_TAG;
        pid = is_inner && pid > 1 ? outer_number(processes, pid) : is_inner ? 0 : pid;
        serve[request->op](processes, request, pid);
    }
    return serves;
}
