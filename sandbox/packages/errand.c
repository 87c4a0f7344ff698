/* An errand: a program of ours that works on packages, in a box of its own.
 *
 * The box is built, confined and proven as each box is (box.c, prove.c). The program starts, says one
 * line, so that the kernel tells whose it is, and waits for its request: that is sent when the proof
 * holds, and nothing is done before. Its end is the errand's; what it has started ends with the box. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/packages/packages.h"
#include "sandbox/plan/ids.h"
#include "sandbox/room_inside.h"
#include "sandbox/trust/trust.h"
#include "sandbox/wire/packet.h"

enum { ERRAND_READ = 65536, ERRAND_READS = 64 };

struct box_errand {
    struct loop *loop;
    const struct box_errand_spec *wanted;
    const struct box_errand_events *events;
    void *arg;
    struct box_spec spec; /* of its box */
    struct box_grade grade;
    struct box *box;
    int log_fd;
    struct loop_io log_io;
    size_t sent;     /* of the request */
    size_t line_sum; /* bytes of all lines so far */
    struct loop_timer timer;
    struct loop_task tell;
    struct box_errand_end end;
    bool ended; /* end is final */
    struct fail why;
};

/* --- the end --- */

static void errand_release(struct box_errand *errand)
{
    loop_timer_disarm(&errand->timer);
    loop_task_cancel(&errand->tell);
    loop_io_remove(&errand->log_io);
    drop_fd(&errand->log_fd);
    box_free(errand->box);
    free(errand);
}

static void errand_tell(void *arg)
{
    struct box_errand *errand = arg;
    const struct box_errand_events *events = errand->events;
    struct box_errand_end end = errand->end;
    struct fail why = errand->why;
    void *owner = errand->arg;
    end.why = end.outcome == BOX_ERRAND_NO_BOX ? &why : NULL;
    errand_release(errand);
    events->on_end(owner, &end);
}

/* The first reason is the one that counts. */
static void errand_set_end(struct box_errand *errand, enum box_errand_outcome outcome, int code)
{
    if (!errand->ended) {
        errand->ended = true;
        errand->end.outcome = outcome;
        errand->end.code = code;
    }
}

static void errand_stop(struct box_errand *errand, enum box_errand_outcome outcome)
{
    errand_set_end(errand, outcome, 0);
    box_kill(errand->box);
}

static void errand_on_state(void *arg, enum box_state state, const struct fail *why)
{
    struct box_errand *errand = arg;
    if (state == BOX_READY) {
        (void)loop_io_set(&errand->box->guest_io, EPOLLIN | EPOLLOUT);
        return;
    }
    if (why) {
        errand->why = *why;
    }
    errand_set_end(errand, BOX_ERRAND_NO_BOX, 0);
    loop_task_queue(errand->loop, &errand->tell, errand_tell, errand);
}

static void errand_on_egress(void *arg, const struct egress_event *event)
{
    struct box_errand *errand = arg;
    if (errand->events->on_egress) {
        errand->events->on_egress(errand->arg, event);
    }
}

static void errand_on_timer(void *arg)
{
    errand_stop(arg, BOX_ERRAND_TIMEOUT);
}

/* --- what it says --- */

/* Lines that are whole. Returns false when there is more than may be. */
static bool errand_take_lines(struct box_errand *errand, pid_t sender)
{
    struct buf *in = &errand->box->guest_in;
    for (;;) {
        const char *bytes = buf_bytes(in);
        const char *end = buf_size(in) ? memchr(bytes, '\n', buf_size(in)) : NULL;
        if (!end) {
            return buf_size(in) <= LIMIT_ERRAND_LINE_BYTES;
        }
        size_t size = (size_t)(end - bytes);
        if (errand->box->interpreter) {
            errand->events->on_line(errand->arg, bytes, size);
        } else {
            box_guest_ready(errand->box, sender);
        }
        if (errand->box->state == BOX_DEAD) {
            return true; /* its buffer is gone */
        }
        buf_consume(in, size + 1);
    }
}

/* One piece of what the socket holds. Returns false when there is none. */
static bool errand_read(struct box_errand *errand)
{
    struct box *box = errand->box;
    char *space = NULL;
    pid_t sender = 0;
    if (box->guest_fd < 0 || buf_reserve(&box->guest_in, ERRAND_READ, &space) < 0) {
        return false;
    }
    ssize_t size = packet_receive_from(box->guest_fd, space, ERRAND_READ, &sender);
    if (size <= 0) {
        if (size == 0) {
            loop_io_remove(&box->guest_io); /* pid 1 tells how it ended */
        }
        return false;
    }
    buf_commit(&box->guest_in, (size_t)size);
    errand->line_sum += (size_t)size;
    if (errand->line_sum > LIMIT_ERRAND_LINES_BYTES || !errand_take_lines(errand, sender)) {
        errand_stop(errand, BOX_ERRAND_LOST);
    }
    return box->state != BOX_DEAD;
}

/* The request, then its end. */
static void errand_write(struct box_errand *errand)
{
    struct box *box = errand->box;
    const struct box_errand_spec *wanted = errand->wanted;
    while (errand->sent < wanted->request_size) {
        ssize_t size = send(box->guest_fd, wanted->request + errand->sent,
                            wanted->request_size - errand->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size < 0) {
            break; /* it has ended: pid 1 tells how */
        }
        errand->sent += (size_t)size;
    }
    (void)shutdown(box->guest_fd, SHUT_WR);
    (void)loop_io_set(&box->guest_io, EPOLLIN);
}

static void errand_on_io(void *arg, uint32_t events)
{
    struct box_errand *errand = arg;
    if (events & EPOLLOUT) {
        errand_write(errand);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        (void)errand_read(errand);
    }
}

/* One piece. Returns false when there is none. */
static bool errand_read_log(struct box_errand *errand)
{
    char bytes[ERRAND_READ];
    ssize_t size = errand->log_fd < 0 ? 0 : read(errand->log_fd, bytes, sizeof bytes);
    if (size > 0) {
        errand->events->on_log(errand->arg, bytes, (size_t)size);
    } else if (size == 0) {
        loop_io_remove(&errand->log_io);
    }
    return size > 0;
}

static void errand_on_log(void *arg, uint32_t events)
{
    (void)events;
    (void)errand_read_log(arg);
}

/* --- its process --- */

static int errand_attach(struct box_errand *errand, int fds[WIRE_FDS])
{
    struct box *box = errand->box;
    box->guest_fd = take_fd(&fds[0]);
    errand->log_fd = take_fd(&fds[1]);
    if (box->guest_fd < 0 || errand->log_fd < 0) {
        return -EPROTO;
    }
    int r = fd_set_nonblock(errand->log_fd, true);
    r = r ? r
          : loop_io_add(box->loop, &box->guest_io, box->guest_fd, EPOLLIN, errand_on_io, errand);
    return r ? r
             : loop_io_add(box->loop, &errand->log_io, errand->log_fd, EPOLLIN, errand_on_log,
                           errand);
}

static void errand_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the box ends */
    }
    int r = reply->error ? -reply->error : errand_attach(box->errand, fds);
    if (r < 0) {
        (void)fail_set(&fail, -r, "start the interpreter");
        box_broken(box, &fail);
        return;
    }
    box->guest_pid = reply->pid;
}

static int errand_start_program(struct box *box, struct fail *ret_fail)
{
    struct wire_request request = {.op = WIRE_START_PROGRAM};
    int r = link_send(box, &request, errand_started, box);
    return r < 0 ? fail_set(ret_fail, -r, "start the interpreter") : 0;
}

static bool was_killed_for_memory(struct box_errand *errand)
{
    struct box_errand_end *end = &errand->end;
    if (!end->out_of_memory && cgroup_oom_happened(&errand->box->cgroup)) {
        end->out_of_memory = true;
        end->used_bytes = cgroup_memory_peak(&errand->box->cgroup);
        end->limit_bytes = errand->spec.limits.memory_bytes;
    }
    return end->out_of_memory;
}

static void errand_exited(struct box *box, pid_t pid, int status)
{
    struct box_errand *errand = box->errand;
    if (pid != box->guest_pid) {
        return;
    }
    for (unsigned i = 0; i < ERRAND_READS && errand_read(errand); i++) {
    }
    if (box->state == BOX_DEAD) {
        return;
    }
    if (!box->interpreter && box_confinement_failed(box, status, &errand->why)) {
        box_broken(box, &errand->why);
        return;
    }
    bool oom = was_killed_for_memory(errand);
    if (WIFSIGNALED(status)) {
        bool killed = WTERMSIG(status) == SIGKILL && oom;
        errand_set_end(errand, killed ? BOX_ERRAND_OOM : BOX_ERRAND_SIGNAL, WTERMSIG(status));
    } else {
        errand_set_end(errand, BOX_ERRAND_EXITED, WEXITSTATUS(status));
    }
    /* What it had started may still be writing; then the rest is what is in the pipe. */
    for (unsigned i = 0; i < ERRAND_READS && errand_read_log(errand); i++) {
    }
    box_kill(box);
}

static void errand_memory_killed(struct box *box, pid_t pid, uint64_t used_bytes)
{
    struct box_errand_end *end = &box->errand->end;
    (void)pid;
    end->out_of_memory = true;
    end->used_bytes = used_bytes;
    end->limit_bytes = box->spec->limits.memory_bytes;
}

static void errand_disk_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_errand *errand = box->errand;
    errand_set_end(errand, BOX_ERRAND_DISK, 0);
    errand->end.used_bytes = reply->disk_bytes;
    errand->end.limit_bytes = box->spec->packages_bytes;
    box_kill(box);
}

/* --- the face --- */

static void errand_content(struct box_errand *errand, const struct box_packages *packages,
                           struct plan_content *content)
{
    const struct box_errand_spec *wanted = errand->wanted;
    const struct box_view *view = &errand->spec.view;
    *content = (struct plan_content){.files = wanted->program,
                                     .main = wanted->main,
                                     .arguments = {wanted->argument},
                                     .errand = true};
    packages_show(packages, content);
    plan_show(content, packages->stage, view->stage, /* writable= */ true);
    if (wanted->cache) {
        plan_show(content, packages->download, view->cache, /* writable= */ true);
    }
    if (wanted->find_links) {
        plan_show(content, wanted->find_links, view->find_links, /* writable= */ false);
    }
    if (wanted->constraint) {
        plan_show(content, wanted->constraint, view->constraint, /* writable= */ false);
    }
    if (wanted->cert) {
        plan_show(content, wanted->cert, view->certificate, /* writable= */ false);
    }
}

/* What is the user's, where the errand's id has a way to it. */
static int errand_see_files(struct box_errand *errand, struct fail *ret_fail)
{
    const struct box_errand_spec *wanted = errand->wanted;
    struct box_room *room = errand->spec.room;
    struct box_view *view = &errand->spec.view;
    view->find_links = wanted->find_links ? wanted->find_links : "";
    view->constraint = "";
    view->certificate = "";
    if (wanted->find_links && room->ids.errand != geteuid() && !ids_all_reach(wanted->find_links)) {
        return fail_set(ret_fail, EACCES,
                        "the directory of wheels %s; the installer has a separate uid here: copy "
                        "the wheels to a directory that every user may read",
                        wanted->find_links);
    }
    int r = wanted->constraint ? room_copy_file(room, ROOM_CONSTRAINT, wanted->constraint,
                                                &view->constraint, ret_fail)
                               : 0;
    return r == 0 && wanted->cert
               ? room_copy_file(room, ROOM_CERTIFICATE, wanted->cert, &view->certificate, ret_fail)
               : r;
}

/* Its box has no root of its own: it finds all of it where the host has it. */
static int errand_see_room(struct box_errand *errand, const struct box_packages *packages,
                           struct fail *ret_fail)
{
    struct box_view *view = &errand->spec.view;
    view->work = packages->stage;
    view->tmp = view->home = packages->stage;
    view->stage = packages->stage;
    view->cache = packages->download;
    int r = room_add_errand(errand->spec.room, errand->wanted->program, view, ret_fail);
    return r ? r : errand_see_files(errand, ret_fail);
}

/* Of what a symlink leads to in a directory where code writes a message may quote. */
static int judge_files(const struct box_spec *spec, const struct box_errand_spec *wanted,
                       struct fail *ret_fail)
{
    static const char fix[] = "keep it somewhere else";
    const char *const files[][2] = {{"the constraint file", wanted->constraint},
                                    {"the certificate file", wanted->cert},
                                    {"the directory of wheels", wanted->find_links}};
    int r = 0;
    for (unsigned i = 0; i < 3 && r == 0; i++) {
        r = files[i][1] ? trust_check(spec, files[i][0], files[i][1], fix, ret_fail) : 0;
    }
    return r;
}

int box_errand_start(struct box_packages *packages, const struct box_errand_spec *errand_spec,
                     const struct box_errand_events *events, void *arg,
                     struct box_errand **ret_errand, struct fail *ret_fail)
{
    static const struct box_role role = {errand_start_program, errand_exited, errand_memory_killed,
                                         errand_disk_killed};
    struct plan_content content;
    struct loop *loop = packages->loop;
    const struct box_spec *spec = packages->spec;
    if (packages_open(packages) < 0) {
        *ret_fail = packages->trouble;
        return -ENOENT;
    }
    int r = judge_files(spec, errand_spec, ret_fail);
    if (r < 0) {
        return r;
    }
    struct box_errand *errand = calloc(1, sizeof *errand);
    if (!errand) {
        return fail_set(ret_fail, ENOMEM, "an errand");
    }
    errand->loop = loop;
    errand->wanted = errand_spec;
    errand->events = events;
    errand->arg = arg;
    errand->log_fd = -1;
    errand->spec = *spec;
    errand->spec.workspace = NULL;
    errand->spec.workspace_elsewhere = spec->workspace;
    errand->spec.egress = errand_spec->egress;
    errand->spec.limits.disk_bytes = spec->packages_bytes; /* of a single file too */
    r = spec->room ? errand_see_room(errand, packages, ret_fail) : 0;
    if (r < 0) {
        errand_release(errand);
        return r;
    }
    errand_content(errand, packages, &content);
    struct box_owner owner = {errand_on_state, errand, &errand->grade, errand_on_egress};
    struct box_setup setup = {&role, errand, &content};
    r = box_open(loop, &errand->spec, &owner, &setup, &errand->box, ret_fail);
    if (r < 0) {
        errand_release(errand);
        return r;
    }
    loop_timer_arm(loop, &errand->timer,
                   clock_now_ns() + errand_spec->time_limit_ms * CLOCK_NS_PER_MS, errand_on_timer,
                   errand);
    *ret_errand = errand;
    return 0;
}

void box_errand_cancel(struct box_errand *errand)
{
    errand_stop(errand, BOX_ERRAND_CANCELLED);
}

void box_errand_free(struct box_errand *errand)
{
    if (errand) {
        errand_release(errand);
    }
}
