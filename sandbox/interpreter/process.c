/* The server's view of one interpreter: a control socket, two pipes, and checkpoints.
 *
 *   QUEUED ──begin──► FORKING ──hello──► WATCHING ──watched──► READY ◄─────resumed─────┐
 *      │                 │                │ │ └────exit────► EXITED ◄─exit─┘ │           │
 *      │                 │                │ └──────kill────────┼─► KILLING ◄─┘kill       │
 *     kill              kill           unknown             kill│    │    │              │
 *      │                 │                │                    │ exit, swept            │
 *      │                 │                │                    │unknown ▼              │
 *      └─────────────────┴────────────────┴──► SWEEPING ◄──────┴────┘ REAPING            │
 *                                                 │swept        exit, unknown│            │
 *                                                 └────────► WAKING ◄────────┘            │
 *                                   (freed) ◄─no checkpoint─────┘ └─────────────────────┘
 *
 * READY leads to SWEEPING as well, when init does not know a process that was woken, and so does
 * WAKING, when the checkpoint exits or hangs.
 *
 * After each result the interpreter forks a checkpoint, a suspended copy that shares its
 * sockets. On kill, init kills everything with the session's tag except the checkpoints, so what
 * the interpreter has started does not outlive it. When the interpreter has exited and init has
 * responded that nothing else is left, nothing writes to the socket or the pipes any more: the
 * server takes or drops what is left in them and wakes a checkpoint, which is the session's
 * process from then on. Without one, the session ends. box_kill() ends it in any state. */
#include "sandbox/interpreter/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parse.h"

static const enum process_state next_state[PROCESS_STATES][PROCESS_EVENTS] = {
    /* No event leads to QUEUED, so it stands for "no change". */
    [PROCESS_QUEUED] = {[PROCESS_BEGIN] = PROCESS_FORKING, [PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_FORKING] = {[PROCESS_HELLO] = PROCESS_WATCHING, [PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_WATCHING] = {[PROCESS_WATCHED] = PROCESS_READY,
                          [PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                          [PROCESS_EXIT] = PROCESS_EXITED,
                          [PROCESS_KILL] = PROCESS_KILLING},
    [PROCESS_READY] = {[PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                       [PROCESS_EXIT] = PROCESS_EXITED,
                       [PROCESS_KILL] = PROCESS_KILLING},
    [PROCESS_EXITED] = {[PROCESS_KILL] = PROCESS_SWEEPING},
    [PROCESS_KILLING] = {[PROCESS_UNKNOWN] = PROCESS_SWEEPING,
                         [PROCESS_EXIT] = PROCESS_SWEEPING,
                         [PROCESS_SWEPT] = PROCESS_REAPING},
    [PROCESS_SWEEPING] = {[PROCESS_SWEPT] = PROCESS_WAKING},
    [PROCESS_REAPING] = {[PROCESS_UNKNOWN] = PROCESS_WAKING, [PROCESS_EXIT] = PROCESS_WAKING},
    [PROCESS_WAKING] = {[PROCESS_RESUMED] = PROCESS_READY, [PROCESS_FAILED] = PROCESS_SWEEPING},
};

/* --- checkpoints ---
 *
 * Which are suspended, which stay, which one replaces the
 * interpreter, and how much memory only they hold. */

static struct session_checkpoint *checkpoint_of_cell(struct box_session *session, unsigned cell)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid > 0 && session->checkpoints[i].cell == cell) {
            return &session->checkpoints[i];
        }
    }
    return NULL;
}

/* pid: 0: a free entry. */
static struct session_checkpoint *checkpoint_of_pid(struct box_session *session, pid_t pid)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid == pid) {
            return &session->checkpoints[i];
        }
    }
    return NULL;
}

static void checkpoint_forget(struct box_session *session, struct session_checkpoint *checkpoint)
{
    *checkpoint = (struct session_checkpoint){};
    struct session_checkpoint **const uses[] = {&session->latest, &session->target,
                                                &session->waking};
    for (unsigned i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (*uses[i] == checkpoint) {
            *uses[i] = NULL;
        }
    }
}

/* An error: init reports no exit. It does not watch the process, or code presented its own child,
 * which only code can reap. */
static void checkpoint_killed(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box *box = arg;
    box->sessions.leaving -= reply->error && box->sessions.leaving > 0;
}

static void checkpoint_kill(struct box_session *session, struct session_checkpoint *checkpoint)
{
    if (process_signal_pid(session, checkpoint->pid, SIGKILL, checkpoint_killed, session->box) ==
        0) {
        session->box->sessions.leaving++;
    }
    checkpoint_forget(session, checkpoint);
}

static void checkpoints_kill(struct box_session *session)
{
    for (unsigned i = 0; i < SESSION_CHECKPOINTS; i++) {
        if (session->checkpoints[i].pid > 0) {
            checkpoint_kill(session, &session->checkpoints[i]);
        }
    }
}

static struct box_session *checkpoint_owner(const struct box *box, pid_t pid,
                                            struct session_checkpoint **ret_checkpoint)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        *ret_checkpoint = checkpoint_of_pid(session, pid);
        if (*ret_checkpoint) {
            return session;
        }
    }
    return NULL;
}

/* The checkpoint being woken has exited, hangs or has broken the protocol: ends what it has
 * started, and tries the next one. */
static void checkpoint_wake_failed(struct box_session *session)
{
    if (session->waking) {
        checkpoint_kill(session, session->waking);
    }
    process_step(session, PROCESS_FAILED);
}

/* A process of the sandbox has exited. */
static void checkpoint_exited(struct box *box, pid_t pid)
{
    struct session_checkpoint *checkpoint = NULL;
    struct box_session *session = checkpoint_owner(box, pid, &checkpoint);
    if (!session) {
        box->sessions.leaving -= box->sessions.leaving > 0;
        return;
    }
    unsigned cell = checkpoint->cell;
    bool was_waking = checkpoint == session->waking;
    checkpoint_forget(session, checkpoint);
    if (was_waking) {
        checkpoint_wake_failed(session);
    } else {
        session->events->on_checkpoint(session->arg, cell, BOX_CHECKPOINT_THERE);
    }
}

/* Only a watched process can be woken, and init watches only processes of this session. */
static void checkpoint_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error && reply->error != ECONNRESET) {
        checkpoint_exited(session->box, reply->pid);
    }
}

/* Enters the checkpoint in place of the one with the same cell. Returns NULL when it is not
 * valid. */
static struct session_checkpoint *checkpoint_enter(struct box_session *session,
                                                   const struct box_message *message, unsigned cell)
{
    struct session_checkpoint *other = NULL;
    struct session_checkpoint *entry = checkpoint_of_cell(session, cell);
    pid_t pid = process_message_pid(message, "checkpoint");
    if (pid == 0 || pid == session->pid || checkpoint_owner(session->box, pid, &other)) {
        return NULL;
    }
    bool kept = entry && entry->kept;
    if (entry && entry != session->waking) {
        checkpoint_kill(session, entry);
    }
    entry = entry ? entry : checkpoint_of_pid(session, 0);
    if (entry) {
        struct wire_request request = {
            .op = WIRE_WATCH, .pid = pid, .tag = session->tag, .role = WIRE_ROLE_CHECKPOINT};
        *entry = (struct session_checkpoint){.pid = pid, .cell = cell, .kept = kept};
        (void)box_ask(session->box, &request, checkpoint_watched, session);
    }
    return entry;
}

void checkpoint_made(struct box_session *session, const struct box_message *message)
{
    uint64_t cell = box_message_number(message, "cell", UINT64_MAX);
    if (cell > UINT32_MAX) {
        return;
    }
    struct session_checkpoint *made = checkpoint_enter(session, message, (unsigned)cell);
    struct session_checkpoint *before = session->latest;
    if (made) {
        session->latest = made;
        if (before && before != made && !before->kept) {
            checkpoint_kill(session, before);
        }
    }
    session->events->on_checkpoint(session->arg, (unsigned)cell, BOX_CHECKPOINT_AWAITED);
}

void checkpoint_resumed(struct box_session *session, const struct box_message *message)
{
    struct session_checkpoint *polling = session->waking;
    struct session_checkpoint *before = session->latest;
    unsigned cell = polling->cell;
    session->pid = polling->pid;
    session->latest = checkpoint_enter(session, message, cell); /* in the woken one's entry */
    if (!session->latest) {
        checkpoint_forget(session, polling);
    }
    session->waking = NULL;
    session->target = NULL;
    session->awaited = 0;
    if (before && before != polling && !before->kept) {
        checkpoint_kill(session, before);
    }
    struct box_end end = session->death.end;
    session->death = (struct session_death){};
    process_step(session, PROCESS_RESUMED);
    if (process_watch(session) < 0) { /* init watches it already: only its role changes */
        process_lose(session);
    }
    if (!session->latest) {
        session->events->on_checkpoint(session->arg, cell, BOX_CHECKPOINT_THERE);
    }
    session->events->on_restored(session->arg, &end, cell, message);
}

/* --- a woken checkpoint, until it is the session ---
 *
 * Before that it runs code that the session's code can have put there: handlers of
 * os.register_at_fork, audit hooks, another `random`. Where that does not end, the next older state
 * takes over. The machine may be busy, so what counts is what the process itself does; the limit of
 * time alone is for what cannot be seen. */

enum {
    LOOK_MS = 1000,
    CPU_MS = 1000,   /* of processor time behind the first look; it needs some ten */
    LOOKS_IDLE = 10, /* in a row, in which it has used no time */
    LOOKS_MOST = 60, /* as in vfork(2), or where nobody has a /proc */
};

static void wake_failed(struct box_session *session)
{
    struct box_end *end = &session->death.end;
    end->stalled_cell = end->stalled++ > 0 ? end->stalled_cell : session->waking->cell;
    log_info("sandbox", "the state after cell %u does not resume: its code hangs",
             session->waking->cell);
    checkpoint_wake_failed(session);
}

static void wake_seen(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    struct session_wake *wake = &session->wake;
    if (reply->error || session->state != PROCESS_WAKING || session->waking->pid != reply->pid) {
        return;
    }
    wake->idle = reply->idle && reply->cpu_ms == wake->cpu_ms ? wake->idle + 1 : 0;
    wake->cpu_ms = reply->cpu_ms;
    wake->first_ms = wake->looks == 1 ? reply->cpu_ms : wake->first_ms;
    if (wake->cpu_ms - wake->first_ms >= CPU_MS || wake->idle >= LOOKS_IDLE) {
        wake_failed(session);
    }
}

static void wake_look(void *arg)
{
    struct box_session *session = arg;
    struct wire_request request = {.op = WIRE_LOOK, .pid = session->waking->pid};
    session->death.looks++;
    bool is_slow = session->death.looks % (SESSION_SLOW_MS / LOOK_MS) == 0;
    if (++session->wake.looks > LOOKS_MOST) {
        wake_failed(session);
        return;
    }
    (void)box_ask(session->box, &request, wake_seen, session);
    loop_timer_in(session->box->loop, &session->timer, LOOK_MS, wake_look, session);
    if (is_slow) {
        session->events->on_slow(session->arg,
                                 &session->death.end); /* this may close the session */
    }
}

/* Looks after it, and calls on_slow as process_wait_slowly() does. */
static void wake_watch(struct box_session *session)
{
    session->wake = (struct session_wake){};
    loop_timer_in(session->box->loop, &session->timer, LOOK_MS, wake_look, session);
}

static void process_gone(struct box_session *session);

/* Wakes the best checkpoint: the target, else the latest, else the newest that is kept. Without
 * any, ends the session. */
static void checkpoint_wake(struct box_session *session)
{
    struct session_checkpoint *best = session->target ? session->target : session->latest;
    for (unsigned i = 0; !(session->target || session->latest) && i < SESSION_CHECKPOINTS; i++) {
        struct session_checkpoint *entry = &session->checkpoints[i];
        if (entry->pid > 0 && (!best || entry->cell > best->cell)) {
            best = entry;
        }
    }
    session->waking = best;
    if (!best) {
        process_gone(session);
        return;
    }
    wake_watch(session);
    (void)process_signal_pid(session, best->pid, SIGUSR2, NULL, NULL);
}

/* --- what the session asks --- */

void box_session_await_checkpoint(struct box_session *session, unsigned cell)
{
    session->awaited = cell;
}

enum box_checkpoint box_session_checkpoint(struct box_session *session, unsigned cell)
{
    if (!session || cell == 0) {
        return BOX_CHECKPOINT_NONE;
    }
    return checkpoint_of_cell(session, cell) ? BOX_CHECKPOINT_THERE
           : session->awaited == cell        ? BOX_CHECKPOINT_AWAITED
                                             : BOX_CHECKPOINT_NONE;
}

void box_session_keep(struct box_session *session, bool (*keeps)(const void *arg, unsigned cell),
                      const void *arg)
{
    for (struct session_checkpoint *at = session->checkpoints;
         at < session->checkpoints + SESSION_CHECKPOINTS; at++) {
        at->kept = at->pid > 0 && keeps(arg, at->cell);
        if (at->pid > 0 && !at->kept && at != session->latest && at != session->target &&
            at != session->waking) {
            checkpoint_kill(session, at);
        }
    }
}

bool box_session_give_up(struct box_session *session)
{
    struct session_checkpoint *latest = session->latest;
    if (session->state != PROCESS_READY || !latest || latest->kept) {
        return false;
    }
    checkpoint_kill(session, latest);
    return true;
}

int box_session_restore(struct box_session *session, unsigned cell)
{
    struct session_checkpoint *checkpoint = checkpoint_of_cell(session, cell);
    if (session->state != PROCESS_READY) {
        return -EPIPE;
    }
    if (!checkpoint) {
        return -ENOENT;
    }
    session->target = checkpoint;
    if (session->latest) {
        session->latest->kept = true;
    }
    box_session_kill(session);
    return 0;
}

/* --- how much memory only checkpoints hold ---
 *
 * A checkpoint shares its pages with the live process until that writes to them, and no file of the
 * kernel says with whom a page is shared. But the control group knows all pages, and every process
 * its own: what no live process has belongs to checkpoints alone. Pages that live processes share
 * count twice, so the result is rather too small. */

enum { STATUS_BYTES = 4096, PROCS_BYTES = 65536 };

/* The number in the sandbox: the last one of "NSpid:\t812\t7", proc(5). */
static pid_t inner_pid(const char *status)
{
    const char *line = strstr(status, "\nNSpid:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    uint64_t pid = 0;
    const char *rest = NULL;
    while (end && parse_is_digit(end[-1])) {
        end--;
    }
    return end && parse_digits(end, &pid, &rest) == 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

struct live {
    uint64_t bytes;
    unsigned interpreters;
    bool dies; /* a process is giving back its memory, which the group still counts */
};

static bool is_interpreter(const struct box *box, pid_t pid)
{
    return list_find(box->sessions.list, session,
                     session->state == PROCESS_READY && session->pid == pid) != NULL;
}

static unsigned count_interpreters(const struct box *box)
{
    unsigned count = 0;
    for (const struct box_session *session = box->sessions.list; session; session = session->next) {
        count += session->state == PROCESS_READY;
    }
    return count;
}

/* Adds the pages of a process, pid in digits, unless it is a checkpoint. */
static void add_live(const struct box *box, const char *pid, struct live *live)
{
    char path[48];
    char status[STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%s/status", pid);
    if (fd_read_text_at(AT_FDCWD, path, status, sizeof status) <= 0) {
        live->dies = true;
        return;
    }
    pid_t inner = inner_pid(status);
    struct session_checkpoint *checkpoint = NULL;
    if (inner > 0 && checkpoint_owner(box, inner, &checkpoint)) {
        return;
    }
    uint64_t kib = parse_field(status, "RssAnon:", 0);
    live->bytes += kib * 1024;
    live->dies |= kib == 0 && !strstr(status, "\nState:\tZ");
    live->interpreters += kib > 0 && is_interpreter(box, inner);
}

bool box_memory_of_checkpoints(const struct box *box, uint64_t *ret_bytes)
{
    struct live live = {};
    uint64_t before = cgroup_memory_pages(&box->cgroup);
    char pids[PROCS_BYTES];
    *ret_bytes = 0;
    if (before == 0 || cgroup_oom_is_new(&box->cgroup)) {
        return true;
    }
    if (box->sessions.leaving > 0) {
        return false;
    }
    if (cgroup_processes(&box->cgroup, pids, sizeof pids) < 0) {
        return true;
    }
    char *at = NULL;
    for (const char *pid = strtok_r(pids, "\n", &at); pid; pid = strtok_r(NULL, "\n", &at)) {
        add_live(box, pid, &live);
    }
    /* What was freed meanwhile is no checkpoint's. */
    uint64_t after = cgroup_memory_pages(&box->cgroup);
    uint64_t all = after < before ? after : before;
    if (live.dies || live.interpreters != count_interpreters(box)) {
        return false;
    }
    *ret_bytes = all > live.bytes ? all - live.bytes : 0;
    return true;
}

/* --- the process --- */

static struct box_end process_outcome(struct box_session *session)
{
    struct box *box = session->box;
    struct box_end end = session->death.end;
    int status = session->death.status;
    if (session->death.over) {
        return end;
    }
    if (end.kind == BOX_END_OOM) {
        box->memory_killed = false;
    } else if (end.kind == BOX_END_EXIT && WIFSIGNALED(status)) {
        end.kind = BOX_END_SIGNAL;
        end.code = WTERMSIG(status);
    } else if (end.kind == BOX_END_EXIT) {
        end.code = WEXITSTATUS(status);
    }
    if (end.kind != BOX_END_SIGNAL || end.code != SIGKILL || !cgroup_oom_happened(&box->cgroup)) {
        return end;
    }
    end.kind = BOX_END_OOM;
    end.code = 0;
    end.limit_bytes = box->spec->memory_enclosing;
    if (cgroup_has(&box->cgroup, CGROUP_MEMORY)) {
        uint64_t peak = cgroup_memory_peak(&box->cgroup);
        end.limit_bytes = box->spec->limits.memory_bytes;
        end.used_bytes = peak ? peak : end.limit_bytes;
        /* It may have grown since the ranking. */
        end.blame =
            box->rank.tag && box->rank.tag != session->tag ? BOX_BLAME_UNKNOWN : BOX_BLAME_ITS_OWN;
        end.files_bytes = cgroup_memory_files(&box->cgroup);
    }
    return end;
}

/* The server kills it for this reason; what init has killed it for counts more. */
static void process_condemn(struct box_session *session, enum box_end_kind cause)
{
    struct box_end *end = &session->death.end;
    end->kind = end->kind == BOX_END_OOM || end->kind == BOX_END_DISK ? end->kind : cause;
}

/* Unlinks the session, reports its end and frees it. */
static void process_finish(struct box_session *session)
{
    const struct box_end end = process_outcome(session);
    list_remove(&session->box->sessions.list, session);
    loop_timer_disarm(&session->timer);
    loop_io_remove(&session->control.io);
    box_session_drain(session);
    pipes_close(session);
    session->events->on_end(session->arg, &end);
    process_free(session);
}

int process_signal_pid(struct box_session *session, pid_t pid, int signal, init_client_fn fn,
                       void *arg)
{
    struct wire_request request = {
        .op = WIRE_SIGNAL, .pid = pid, .tag = session->tag, .signal = signal};
    return box_ask(session->box, &request, fn, arg);
}

/* Ends the session without a failover, kills all checkpoints and frees the session. */
static void process_gone(struct box_session *session)
{
    checkpoints_kill(session);
    process_finish(session);
}

/* The interpreter and everything that it started are gone. */
static void process_over(struct box_session *session)
{
    if (!session->death.over) {
        process_lose_branches(session);
        calls_close(session);
        session->death.end = process_outcome(session);
        session->death.over = true;
    }
    /* The dead process's output belongs to the call; the rest of a frame is dropped. */
    box_session_drain(session);
    process_discard(session);
    if (!session->control.io.loop) {
        (void)process_listen(session);
    }
    checkpoint_wake(session);
}

static void process_swept(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    struct fail fail = {};
    if (reply->error == 0) {
        if (!session->death.over) {
            session->death.end.processes = reply->processes;
            (void)snprintf(session->death.end.names, BOX_NAMES_BYTES, "%.*s", BOX_NAMES_BYTES - 1,
                           reply->path);
        }
        process_step(session, PROCESS_SWEPT);
    } else if (reply->error != ECONNRESET) { /* ECONNRESET: the sandbox dies, with its sessions */
        (void)fail_set(&fail, reply->error, "a session's processes could not be killed");
        box_broken(session->box, &fail);
    }
}

static void process_wait_slowly(struct box_session *session);

static void process_slow(void *arg)
{
    struct box_session *session = arg;
    const struct box_end end = process_outcome(session);
    process_wait_slowly(session);
    session->events->on_slow(session->arg, &end);
}

/* Calls on_slow after SESSION_SLOW_MS, and again, until the timer is set anew. No state depends on
 * it: the kernel may take any time to kill a process. */
static void process_wait_slowly(struct box_session *session)
{
    loop_timer_in(session->box->loop, &session->timer, SESSION_SLOW_MS, process_slow, session);
}

static void process_sweep(struct box_session *session)
{
    process_wait_slowly(session);
    struct wire_request request = {
        .op = WIRE_KILL_TAG, .tag = session->tag, .last_tag = session->box->sessions.last_tag};
    for (const struct box_session *other = session->box->sessions.list;
         other && request.tag_count < WIRE_TAGS; other = other->next) {
        if (other != session) {
            request.tags[request.tag_count++] = other->tag;
        }
    }
    int r = box_ask(session->box, &request, process_swept, session);
    if (r < 0) {
        process_swept(session, &(struct wire_reply){.error = -r}, NULL);
    }
}

static void process_take_rest(struct box_session *session)
{
    process_read_last(session);
    process_step(session, PROCESS_KILL);
}

void process_step(struct box_session *session, enum process_event event)
{
    enum process_state before = session->state;
    enum process_state after = next_state[before][event];
    if (after == PROCESS_QUEUED) {
        return;
    }
    session->state = after;
    if (after == PROCESS_READY) {
        loop_timer_disarm(&session->timer);
    } else if (after == PROCESS_EXITED) {
        process_take_rest(session);
    } else if (after == PROCESS_WAKING) {
        process_over(session);
    } else if ((before < PROCESS_KILLING || before == PROCESS_WAKING) && after >= PROCESS_KILLING) {
        process_sweep(session);
    }
}

void process_stop(struct box_session *session, enum process_event event, enum box_end_kind cause)
{
    if (session->state < PROCESS_KILLING) {
        process_condemn(session, cause);
    }
    process_step(session, event);
}

struct box_session *process_by_pid(struct box *box, pid_t pid)
{
    return list_find(box->sessions.list, session, session->pid == pid);
}

void process_exited(struct box *box, pid_t pid, int status)
{
    struct box_session *session = pid > 0 ? process_by_pid(box, pid) : NULL;
    if (session) {
        session->death.status = status;
        process_step(session, PROCESS_EXIT);
    } else if (pid > 0) {
        checkpoint_exited(box, pid);
    }
}

void process_memory_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_session *session = process_by_pid(box, reply->pid);
    struct box_end *end = session && !session->death.over ? &session->death.end : NULL;
    box->memory_killed = box->memory_killed || !session;
    if (end && end->kind != BOX_END_DISK && reply->memory_bytes > 0) {
        end->kind = BOX_END_OOM;
        end->used_bytes = reply->memory_bytes;
        end->limit_bytes = box->spec->limits.memory_bytes;
        end->blame = reply->blame <= BOX_BLAME_UNKNOWN ? (enum box_blame)reply->blame : 0;
    }
}

void process_disk_killed(struct box *box, const struct wire_reply *reply)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        struct box_end *end = &session->death.end;
        if ((reply->pid == 0 || session->pid == reply->pid) && !session->death.over) {
            end->kind = BOX_END_DISK;
            end->used_bytes = reply->disk_bytes ? reply->disk_bytes : 1;
            end->limit_bytes = reply->disk_most_bytes;
            end->used_files = reply->disk_files;
            end->limit_files = box->spec->limits.disk_inodes;
        }
    }
    if (reply->pid == 0) {
        box->handlers->give_up(box);
    }
}

void session_end_all(struct box *box)
{
    while (box->sessions.list) {
        struct box_session *session = box->sessions.list;
        if (!session->death.over && session->state < PROCESS_EXITED) {
            process_condemn(session, BOX_END_KILLED);
        }
        process_finish(session);
    }
}

void box_session_kill(struct box_session *session)
{
    process_stop(session, PROCESS_KILL, BOX_END_KILLED);
}

/* The session may be gone by this time. */
static void process_cell_ended(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = process_by_pid(arg, reply->pid);
    if (reply->error != ECONNRESET && session && session->state == PROCESS_READY) {
        session->events->on_cell_ended(session->arg, reply->processes, reply->path);
    }
}

int box_session_end_cell(struct box_session *session, unsigned cell)
{
    struct wire_request request = {
        .op = WIRE_KILL_TAG, .pid = session->pid, .tag = session->tag, .cell = cell};
    return session->state == PROCESS_READY
               ? box_ask(session->box, &request, process_cell_ended, session->box)
               : -EPIPE;
}

void box_session_close(struct box_session *session)
{
    checkpoints_kill(session); /* so no checkpoint replaces the interpreter */
    if (session->state == PROCESS_WAKING) {
        process_gone(session);
    } else {
        box_session_kill(session);
    }
}

void process_lose(struct box_session *session)
{
    if (session->state == PROCESS_WAKING) {
        checkpoint_wake_failed(session);
    } else if (session->state != PROCESS_EXITED) {
        process_stop(session, PROCESS_KILL, BOX_END_LOST);
    }
}
