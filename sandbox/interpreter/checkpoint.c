/* The checkpoints of a session: which are suspended, which stay, which one replaces the
 * interpreter, and how much memory only they hold. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "sandbox/interpreter/process.h"

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

void checkpoints_kill(struct box_session *session)
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

bool checkpoint_exited(struct box *box, pid_t pid)
{
    struct session_checkpoint *checkpoint = NULL;
    struct box_session *session = checkpoint_owner(box, pid, &checkpoint);
    if (!session) {
        box->sessions.leaving -= box->sessions.leaving > 0;
        return false;
    }
    unsigned cell = checkpoint->cell;
    bool was_waking = checkpoint == session->waking;
    checkpoint_forget(session, checkpoint);
    if (was_waking) {
        checkpoint_wake_failed(session);
    } else {
        session->events->on_checkpoint(session->arg, cell, BOX_CHECKPOINT_THERE);
    }
    return true;
}

/* Only a watched process can be woken, and init watches only processes of this session. */
static void checkpoint_watched(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box_session *session = arg;
    if (reply->error && reply->error != ECONNRESET) {
        (void)checkpoint_exited(session->box, reply->pid);
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

void checkpoint_wake(struct box_session *session)
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

void checkpoint_wake_failed(struct box_session *session)
{
    if (session->waking) {
        checkpoint_kill(session, session->waking);
    }
    process_step(session, PROCESS_FAILED);
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
    while (end && end[-1] >= '0' && end[-1] <= '9') {
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
    const struct box_session *session = box->sessions.list;
    while (session && (session->state != PROCESS_READY || session->pid != pid)) {
        session = session->next;
    }
    return session != NULL;
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
