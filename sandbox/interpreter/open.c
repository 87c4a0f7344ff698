/* How interpreters start: the zygote, from which sessions are forked, and their connections. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "sandbox/box/box.h"
#include "sandbox/checkpoint_policy.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/packages/store.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/report/report.h"
#include "sandbox/types.h"

/* Makes the connections; guest_fds are the guest's ends. Pipes and memfds belong to no namespace;
 * init makes the socket pair, see init_protocol.h. */
static int process_connect(struct box_session *session, int guest_fds[SESSION_GUEST_FDS])
{
    session->control.fd = take_fd(&session->box->sessions.pair[0]);
    guest_fds[0] = take_fd(&session->box->sessions.pair[1]);
    unsigned pipes = session->box->spec->separate_streams ? 2 : 1;
    for (unsigned i = 0; i < pipes; i++) {
        int r = fd_pipe(&session->pipes[i].fd, &guest_fds[1 + i]);
        /* Not shared: O_NONBLOCK belongs to this end's file description, the guest's end has
         * another. */
        r = r ? r : fd_set_nonblock(session->pipes[i].fd, true);
        if (r < 0) {
            return r;
        }
        /* A program that opens /dev/stderr opens the pipe anew, as another user. */
        (void)fchmod(guest_fds[1 + i], S_IRUSR | S_IWUSR | S_IWGRP | S_IWOTH);
        (void)fcntl(session->pipes[i].fd, F_SETPIPE_SZ, SESSION_PIPE_BYTES);
    }
    if (pipes == 1) {
        guest_fds[2] = fcntl(guest_fds[1], F_DUPFD_CLOEXEC, 3);
        if (guest_fds[2] < 0) {
            return -errno;
        }
    }
    session->trace_fd = memfd_create("sandpiper-trace", MFD_CLOEXEC);
    guest_fds[3] = session->trace_fd < 0 ? -1 : fcntl(session->trace_fd, F_DUPFD_CLOEXEC, 3);
    bool greets = !session->is_branch && box_spec_is_written_through(session->box->spec) &&
                  !session->box->guest.is_seen;
    if (guest_fds[3] >= 0 && session->box->keeper.greet_fd >= 0 && greets) {
        guest_fds[4] = fcntl(session->box->keeper.greet_fd, F_DUPFD_CLOEXEC, 3);
    }
    return guest_fds[3] < 0 ? -errno : 0;
}

/* Sends all of the frame with the guest's ends, in one piece. 0 or -errno. */
static int process_send_fds(int socket_fd, const struct buf *frame, const int *guest_fds)
{
    ssize_t sent = packet_send(socket_fd, buf_bytes(frame), buf_size(frame), guest_fds,
                               SESSION_GUEST_FDS - (guest_fds[4] < 0), MSG_DONTWAIT);
    if (sent < 0) {
        return (int)sent;
    }
    return (size_t)sent == buf_size(frame) ? 0 : -EAGAIN;
}

void box_fields_add(struct box_fields *fields, const char *name, const char *bytes, size_t size)
{
    fields->at[fields->count++] = (struct box_field){name, strlen(name)};
    fields->at[fields->count++] = (struct box_field){bytes, size};
}

void box_fields_add_number(struct box_fields *fields, const char *name, uint64_t number)
{
    char *digits = fields->digits[fields->count / 2];
    int size = snprintf(digits, sizeof fields->digits[0], "%" PRIu64, number);
    box_fields_add(fields, name, digits, (size_t)size);
}

static int process_ask_zygote(struct box_session *session, const int *guest_fds)
{
    const struct box_limits *limits = &session->box->spec->limits;
    uint64_t memory = limits->memory_bytes;
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    struct box_fields fields = {.at = {{"session", 7}}, .count = 1};
    box_fields_add(&fields, "name", session->name, strlen(session->name));
    box_fields_add_number(&fields, "tag", session->tag);
    box_fields_add_number(&fields, "memory", memory);
    box_fields_add_number(&fields, "processes", limits->pids);
    box_fields_add_number(&fields, "early", session->early);
    box_fields_add_number(&fields, "measure_from",
                          checkpoint_bytes(memory, CHECKPOINT_MEASURE_PERCENT));
    /* Where a control group counts, every state gets a checkpoint: it can make way. */
    box_fields_add_number(&fields, "checkpoint_most",
                          cgroup_has(&session->box->cgroup, CGROUP_MEMORY)
                              ? memory
                              : checkpoint_uncounted_most(memory));
    int r = channel_encode(&frame, fields.at, fields.count);
    return r ? r : process_send_fds(session->box->guest.fd, &frame, guest_fds);
}

/* A branch is a fork of its parent, or of the parent's checkpoint while that runs a cell: then the
 * checkpoint takes the frame from the socket that it shares with its parent. */
static int process_ask_parent(struct box_session *session, const int *guest_fds)
{
    struct box_session *parent = session->parent;
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    struct box_fields fields = {.at = {{"branch", 6}}, .count = 1};
    box_fields_add(&fields, "name", session->name, strlen(session->name));
    box_fields_add_number(&fields, "tag", session->tag);
    if (!parent || parent->state != PROCESS_READY || buf_size(&parent->control.out) > 0) {
        return -ESRCH;
    }
    const struct session_checkpoint *checkpoint = parent->latest;
    if (session->branch_cell > 0 && !checkpoint) {
        return -ENOENT;
    }
    int r = channel_encode(&frame, fields.at, fields.count);
    r = r ? r : process_send_fds(parent->control.fd, &frame, guest_fds);
    /* With another checkpoint, the cell has ended meanwhile: the parent reads the frame itself. */
    if (r == 0 && session->branch_cell > 0 && checkpoint->cell == session->branch_cell) {
        (void)process_signal_pid(parent, checkpoint->pid, SIGUSR1, NULL, NULL);
    }
    return r;
}

/* The zygote and box->sessions.pair exist. Sends one message to the zygote, and does not wait. */
static int process_begin(struct box_session *session)
{
    int guest_fds[SESSION_GUEST_FDS] = {-1, -1, -1, -1, -1};
    int r = process_connect(session, guest_fds);
    r = r ? r : process_listen(session);
    r = r ? r : pipes_attach(session);
    r = r                    ? r
        : session->is_branch ? process_ask_parent(session, guest_fds)
                             : process_ask_zygote(session, guest_fds);
    for (unsigned i = 0; i < SESSION_GUEST_FDS; i++) {
        own_close(&guest_fds[i]);
    }
    process_want_pair(session->box);
    if (r == 0) {
        process_step(session, PROCESS_BEGIN);
    }
    return r;
}

static bool box_can_begin(const struct box *box)
{
    return box->guest.fd >= 0 && box->sessions.pair[0] >= 0;
}

/* The session that has waited longest, or NULL: new ones are at the front of the list. */
static struct box_session *process_next_waiting(const struct box *box)
{
    struct box_session *oldest = NULL;
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        if (session->state == PROCESS_QUEUED) {
            oldest = session;
        }
    }
    return oldest;
}

void process_begin_waiting(struct box *box)
{
    struct box_session *session = NULL;
    while (box_can_begin(box) && (session = process_next_waiting(box))) {
        if (process_begin(session) < 0) {
            process_lose(session);
        }
    }
}

/* Keeps one pair in advance, so that a session need not wait for init. */
void process_want_pair(struct box *box)
{
    if (box->sessions.pair[0] < 0 && !box->sessions.pair_asked) {
        box->sessions.pair_asked =
            init_client_post(&box->init, &(struct wire_request){.op = WIRE_PAIR}) == 0;
    }
}

/* The pair, or why there is none; takes the fds that it uses. */
static void process_pair_made(struct box *box, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box_session *session = process_next_waiting(box);
    if (!box->sessions.pair_asked) {
        return;
    }
    box->sessions.pair_asked = false;
    if (fds[0] >= 0 && fds[1] >= 0) {
        box->sessions.pair[0] = take_fd(&fds[0]);
        box->sessions.pair[1] = take_fd(&fds[1]);
        process_begin_waiting(box);
        calls_pair_made(box, /* failed= */ false);
    } else if (session) {
        log_info("sandbox", "no socket pair for a session: %s", strerror(reply->error));
        process_lose(session);
        process_want_pair(box);
    } else {
        calls_pair_made(box, /* failed= */ true);
    }
}

/* The zygote hangs, in a preloaded module or because of the guest's code: another one may work.
 * Waiting sessions receive its exit. */
static void process_open_late(void *arg)
{
    struct box_session *session = arg;
    if (session->state == PROCESS_QUEUED || session->is_branch) {
        process_lose(session);
    } else {
        struct wire_request request = {.op = WIRE_SIGNAL,
                                       .pid = session->box->guest.pid,
                                       .tag = WIRE_TAG_ZYGOTE,
                                       .signal = SIGKILL};
        (void)box_ask(session->box, &request, NULL, NULL);
    }
}

/* Losing one may free it, and with it change the list. */
void process_lose_branches(struct box_session *parent)
{
    struct box_session *session = parent->box->sessions.list;
    while (session) {
        if (session->parent == parent) {
            session->parent = NULL;
            process_lose(session);
            session = parent->box->sessions.list;
        } else {
            session = session->next;
        }
    }
}

void process_free(struct box_session *session)
{
    process_lose_branches(session);
    box_forget(session->box, session);
    loop_timer_disarm(&session->timer);
    pipes_close(session);
    connection_close(&session->calls);
    connection_close(&session->control);
    own_close(&session->trace_fd);
    free(session->name);
    free(session);
}

/* A tag that no session has, for a new session or a branch. Returns 0 when there is none left. */
static uint32_t new_tag(struct box *box, const struct box_session *parent)
{
    for (uint32_t branch = 1; parent && branch < WIRE_BRANCHES; branch++) {
        uint32_t tag = WIRE_TAG_OF_SESSION(parent->tag) | branch << WIRE_BRANCH_SHIFT;
        if (!list_find(box->sessions.list, at, at->tag == tag)) {
            return tag;
        }
    }
    if (parent) {
        return 0;
    }
    if (box->sessions.last_tag <= WIRE_TAG_LEAST) {
        box->sessions.last_tag = WIRE_TAG_ZYGOTE;
    }
    return --box->sessions.last_tag;
}

/* A session that queues. NULL when out of memory or tags. */
static struct box_session *process_new(struct box *box, const struct box_session_options *options)
{
    struct box_session *session = calloc(1, sizeof *session);
    if (!session) {
        return NULL;
    }
    session->box = box;
    session->events = options->events;
    session->arg = options->arg;
    session->early = options->early;
    session->raw = options->raw;
    session->control.fd = -1;
    session->calls.fd = -1;
    session->trace_fd = -1;
    session->parent = options->parent;
    session->is_branch = options->parent != NULL;
    session->branch_cell = options->cell;
    session->name = strdup(options->name);
    session->tag = new_tag(box, options->parent);
    for (unsigned i = 0; i < 2; i++) {
        session->pipes[i] =
            (struct session_pipe){.session = session, .stream = (enum box_stream)i, .fd = -1};
    }
    if (!session->name || session->tag == 0) {
        process_free(session);
        return NULL;
    }
    return session;
}

int box_session_open(struct box *box, const struct box_session_options *options,
                     struct box_session **ret_session, struct fail *ret_fail)
{
    if (box->state != BOX_READY) {
        return fail_set(ret_fail, ENOTCONN, "the sandbox is not ready");
    }
    struct box_session *session = process_new(box, options);
    if (!session) {
        return fail_set(ret_fail, ENOMEM, options->parent ? "a branch" : "a session");
    }
    process_want_pair(box); /* in case an earlier request failed */
    int r = box_can_begin(box) ? process_begin(session) : 0;
    if (r < 0) {
        process_free(session);
        return fail_set(ret_fail, -r, "cannot open a session");
    }
    session->next = box->sessions.list;
    box->sessions.list = session;
    loop_timer_in(box->loop, &session->timer,
                  session->is_branch ? SESSION_BRANCH_MS : SESSION_OPEN_MS, process_open_late,
                  session);
    *ret_session = session;
    return 0;
}

/* --- the zygote's role in its sandbox --- */

enum { ZYGOTE_DEATHS = 8 /* by the guest, before the sandbox is given up */ };

/* sender: the zygote's pid outside, from the kernel. */
static void zygote_on_message(struct box *box, const struct box_message *message, pid_t sender)
{
    struct box_field version;
    if (!box_field_is(&message->fields[0], "ready")) {
        return;
    }
    if (box_message_get(message, "python", &version)) {
        (void)word_show(version.data, version.size, box->version, sizeof box->version);
    }
    box->handlers->guest_ready(box, sender);
}

static void zygote_on_io(void *arg, uint32_t)
{
    struct box *box = arg;
    struct box_field fields[16];
    char *space = NULL;
    pid_t sender = 0;
    if (buf_reserve(&box->guest.in, 4096, &space) < 0) {
        return;
    }
    ssize_t size = packet_receive_from(box->guest.fd, space, 4096, &sender);
    if (size <= 0) {
        if (size == 0) {
            loop_io_remove(&box->guest.io); /* init reports the exit */
        }
        return;
    }
    buf_commit(&box->guest.in, (size_t)size);
    size_t count = 0;
    size_t used = 0;
    while (box->state != BOX_DEAD &&
           channel_next(&box->guest.in, fields, 16, &count, &used) == CHANNEL_MESSAGE) {
        zygote_on_message(box, &(struct box_message){fields, count}, sender);
        if (box->state != BOX_DEAD) {
            buf_consume(&box->guest.in, used);
        }
    }
}

/* Only the first zygote preloads: modules read files below $HOME and $TMPDIR, and later code has
 * written there. */
static int zygote_preload(struct box *box)
{
    OWNED(buf_done) struct buf frame = BUF_EMPTY;
    const char *names = box->spec->preload;
    if (!names || box->guest.deaths > 0) {
        return 0;
    }
    const struct box_field fields[] = {{"preload", 7}, {"names", 5}, {names, strlen(names)}};
    int r = channel_encode(&frame, fields, sizeof fields / sizeof *fields);
    return r ? r : fd_write_all(box->guest.fd, buf_bytes(&frame), buf_size(&frame));
}

static void zygote_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the sandbox dies */
    }
    int r = reply->error
                ? -reply->error
                : loop_io_add(box->loop, &box->guest.io, fds[0], EPOLLIN, zygote_on_io, box);
    if (r < 0) {
        (void)fail_set(&fail, -r, "cannot start the interpreter");
        box_broken(box, &fail);
        return;
    }
    box->guest.pid = reply->pid;
    box->guest.is_seen = reply->status;
    box->guest.fd = take_fd(&fds[0]);
    r = zygote_preload(box);
    if (r < 0) {
        log_info("sandbox", "nothing was preloaded: %s", strerror(-r));
    }
    process_begin_waiting(box);
}

/* Does not wait: the request stays in the socket until init reads it. */
static int zygote_start(struct box *box, struct fail *ret_fail)
{
    struct wire_request request = {.op = WIRE_START_ZYGOTE};
    loop_io_remove(&box->guest.io);
    drop_fd(&box->guest.fd);
    buf_clear(&box->guest.in, 0);
    box->guest.pid = 0;
    box->guest.host_pid = 0;
    int r = box_ask(box, &request, zygote_started, box);
    if (box->keeper.started == 0) {
        box_start_keeper(box);
    }
    process_want_pair(box);
    return r < 0 ? fail_set(ret_fail, -r, "cannot start the interpreter") : 0;
}

void zygote_died(struct box *box)
{
    for (struct box_session *session = box->sessions.list; session; session = session->next) {
        bool forks = session->state == PROCESS_FORKING || session->state == PROCESS_WATCHING;
        if (forks && !session->is_branch) {
            process_lose(session);
        }
    }
}

static void zygote_exited(struct box *box, pid_t pid, int status)
{
    struct fail fail = {};
    if (pid != box->guest.pid) {
        process_exited(box, pid, status);
        return;
    }
    if (box->state == BOX_READY && box->guest.deaths++ < ZYGOTE_DEATHS &&
        zygote_start(box, &fail) == 0) {
        log_info("sandbox", "the zygote was killed and is being restarted");
        zygote_died(box);
        return;
    }
    if (box_confinement_failed(box, status, &fail)) {
        box_broken(box, &fail);
        return;
    }
    if (WIFSIGNALED(status)) {
        (void)fail_set(&fail, 0, "the interpreter %s was killed by signal %d (%s)",
                       box->python.path, WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        (void)fail_set(&fail, 0, "the interpreter %s exited with status %d before it was ready",
                       box->python.path, WEXITSTATUS(status));
    }
    box_broken(box, &fail);
}

const struct box_role zygote_role = {zygote_start, zygote_exited, process_memory_killed,
                                     process_disk_killed, process_pair_made};

void zygote_content(const struct box_spec *spec, const struct box_packages *packages,
                    struct plan_content *content)
{
    /* The variables that guest/session.py and guest/hints.py read. */
    const struct {
        bool holds;
        const char *word;
    } options[] = {
        {spec->packages, "install"},
        {spec->calls, "calls"},
        {spec->keep, "keep"},
        {spec->allow_degraded & 1U << BOX_PROTECTION_LANDLOCK, "landlock-optional"},
        {spec->scratch != NULL, "container"},
        {spec->workspace != NULL, "workspace"},
        {spec->cow, "cow"},
        {spec->cow && spec->store, "cow-store"},
        {spec->egress && spec->egress->ask, "ask-host"},
        {spec->seed != NULL, "seed="},
    };
    *content = (struct plan_content){
        .files = spec->guest,
        .main = "driver.py",
        .data = spec->mounts,
        .data_count = spec->mount_count,
    };
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].holds) {
            buf_extend(content->words, sizeof content->words, "%s%s%s",
                       content->words[0] ? " " : "", options[i].word,
                       strcmp(options[i].word, "seed=") == 0 ? spec->seed : "");
        }
    }
    content->arguments[0] = content->words[0] ? content->words : NULL;
    if (packages) {
        packages_show(packages, content);
    }
}
