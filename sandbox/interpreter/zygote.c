/* The zygote's role in its sandbox: the interpreter from which sessions are forked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "sandbox/box/box.h"
#include "sandbox/interpreter/interpreter.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/packages/store.h"
#include "sandbox/protocol/frames.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/report/report.h"

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
    session_begin_waiting(box);
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
    session_want_pair(box);
    return r < 0 ? fail_set(ret_fail, -r, "cannot start the interpreter") : 0;
}

static void zygote_exited(struct box *box, pid_t pid, int status)
{
    struct fail fail = {};
    if (pid != box->guest.pid) {
        (void)session_process_exited(box, pid, status);
        return;
    }
    if (box->state == BOX_READY && box->guest.deaths++ < ZYGOTE_DEATHS &&
        zygote_start(box, &fail) == 0) {
        log_info("sandbox", "the zygote was killed and is being restarted");
        session_zygote_died(box);
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

const struct box_role zygote_role = {zygote_start, zygote_exited, session_memory_killed,
                                     session_disk_killed, session_pair_made};

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
        {spec->allow_degraded & 1U << BOX_PROTECTION_LANDLOCK, "landlock-optional"},
        {spec->scratch != NULL, "container"},
        {spec->cow, "cow"},
        {spec->cow && spec->store, "cow-store"},
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
