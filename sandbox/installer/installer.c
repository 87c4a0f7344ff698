/* An installer: a program of ours that works on packages in its own sandbox.
 *
 * The sandbox is built, confined and tested like each sandbox (box.c, report/box_selftest.c). The
 * program starts and writes one line, so that the kernel reveals the sender's pid. It then waits
 * for its request, which the server sends when the self-test has passed. The program's exit is the
 * installer's; what it has started dies with the sandbox. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "sandbox/box.h"
#include "sandbox/box/box.h"
#include "sandbox/installer/installer.h"
#include "sandbox/packages/packages.h"
#include "sandbox/packages/store.h"
#include "sandbox/protocol/packet.h"
#include "sandbox/report/isolation.h"
#include "sandbox/report/report.h"
#include "sandbox/trust/trust.h"
#include "sandbox/unprivileged/unprivileged.h"

enum { INSTALLER_READ = 65536, INSTALLER_READS = 64 };

struct box_installer {
    struct loop *loop;
    const struct box_installer_spec *wanted;
    const struct box_installer_events *events;
    void *arg;
    struct box_spec spec; /* of the installer's sandbox */
    struct box_report report;
    struct box *box;
    int log_fd;
    struct loop_io log_io;
    size_t sent;     /* of the request */
    size_t line_sum; /* bytes of all lines */
    struct loop_timer timer;
    struct loop_task tell;
    struct box_installer_end end;
    bool ended; /* end is final */
    struct fail why;
};

/* --- exit --- */

static void installer_release(struct box_installer *installer)
{
    loop_timer_disarm(&installer->timer);
    loop_io_remove(&installer->log_io);
    drop_fd(&installer->log_fd);
    box_free(installer->box); /* queues tell when it kills the sandbox */
    loop_task_cancel(&installer->tell);
    free(installer);
}

static void installer_tell(void *arg)
{
    struct box_installer *installer = arg;
    const struct box_installer_events *events = installer->events;
    struct box_installer_end end = installer->end;
    struct fail why = installer->why;
    void *owner = installer->arg;
    end.why = end.outcome == BOX_INSTALLER_NO_BOX ? &why : NULL;
    installer_release(installer);
    events->on_end(owner, &end);
}

/* Only the first reason counts. */
static void installer_set_end(struct box_installer *installer, enum box_installer_outcome outcome,
                              int code)
{
    if (!installer->ended) {
        installer->ended = true;
        installer->end.outcome = outcome;
        installer->end.code = code;
    }
}

static void installer_stop(struct box_installer *installer, enum box_installer_outcome outcome)
{
    installer_set_end(installer, outcome, 0);
    box_kill(installer->box);
}

static void installer_on_state(void *arg, enum box_state state, const struct fail *why)
{
    struct box_installer *installer = arg;
    if (state == BOX_READY) {
        (void)loop_io_set(&installer->box->guest.io,
                          installer->wanted->request ? EPOLLIN | EPOLLOUT : EPOLLIN);
        return;
    }
    if (why) {
        installer->why = *why;
    }
    installer_set_end(installer, BOX_INSTALLER_NO_BOX, 0);
    loop_task_queue(installer->loop, &installer->tell, installer_tell, installer);
}

static void installer_on_egress(void *arg, const struct egress_event *event)
{
    struct box_installer *installer = arg;
    if (installer->events->on_egress) {
        installer->events->on_egress(installer->arg, event);
    }
}

static void installer_on_timer(void *arg)
{
    installer_stop(arg, BOX_INSTALLER_TIMEOUT);
}

/* --- output --- */

/* Passes on complete lines. Returns false above the limit. */
static bool installer_take_lines(struct box_installer *installer, pid_t sender)
{
    struct buf *in = &installer->box->guest.in;
    for (;;) {
        const char *bytes = buf_bytes(in);
        const char *end = buf_size(in) ? memchr(bytes, '\n', buf_size(in)) : NULL;
        if (!end) {
            return buf_size(in) <= LIMIT_INSTALLER_LINE_BYTES;
        }
        size_t size = (size_t)(end - bytes);
        if (installer->box->guest.host_pid) {
            installer->events->on_line(installer->arg, bytes, size);
        } else {
            installer->box->handlers->guest_ready(installer->box, sender);
        }
        if (installer->box->state == BOX_DEAD) {
            return true; /* the buffer is freed */
        }
        buf_consume(in, size + 1);
    }
}

/* Reads one piece from the socket. Returns false when it is empty. */
static bool installer_read(struct box_installer *installer)
{
    struct box *box = installer->box;
    char *space = NULL;
    pid_t sender = 0;
    if (box->guest.fd < 0 || buf_reserve(&box->guest.in, INSTALLER_READ, &space) < 0) {
        return false;
    }
    ssize_t size = packet_receive_from(box->guest.fd, space, INSTALLER_READ, &sender);
    if (size <= 0) {
        if (size == 0) {
            loop_io_remove(&box->guest.io); /* init reports the exit */
        }
        return false;
    }
    buf_commit(&box->guest.in, (size_t)size);
    installer->line_sum += (size_t)size;
    if (installer->line_sum > LIMIT_INSTALLER_LINES_BYTES ||
        !installer_take_lines(installer, sender)) {
        installer_stop(installer, BOX_INSTALLER_LOST);
    }
    return box->state != BOX_DEAD;
}

/* Writes the request, then closes the stream. */
static void installer_write(struct box_installer *installer)
{
    struct box *box = installer->box;
    const struct box_installer_spec *wanted = installer->wanted;
    while (installer->sent < wanted->request_size) {
        ssize_t size = send(box->guest.fd, wanted->request + installer->sent,
                            wanted->request_size - installer->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size < 0) {
            break; /* the program has exited: init reports how */
        }
        installer->sent += (size_t)size;
    }
    (void)shutdown(box->guest.fd, SHUT_WR);
    (void)loop_io_set(&box->guest.io, EPOLLIN);
}

static void installer_on_io(void *arg, uint32_t events)
{
    struct box_installer *installer = arg;
    if (events & EPOLLOUT) {
        installer_write(installer);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        (void)installer_read(installer);
    }
}

/* Reads one piece of the log. Returns false when there is none. */
static bool installer_read_log(struct box_installer *installer)
{
    char bytes[INSTALLER_READ];
    ssize_t size = installer->log_fd < 0 ? 0 : read(installer->log_fd, bytes, sizeof bytes);
    if (size > 0) {
        installer->events->on_log(installer->arg, bytes, (size_t)size);
    } else if (size == 0) {
        loop_io_remove(&installer->log_io);
    }
    return size > 0;
}

static void installer_on_log(void *arg, uint32_t)
{
    (void)installer_read_log(arg);
}

/* --- the process --- */

static int installer_attach(struct box_installer *installer, int fds[WIRE_FDS])
{
    struct box *box = installer->box;
    box->guest.fd = take_fd(&fds[0]);
    installer->log_fd = take_fd(&fds[1]);
    if (box->guest.fd < 0 || installer->log_fd < 0) {
        return -EPROTO;
    }
    int r = fd_set_nonblock(installer->log_fd, true);
    r = r ? r
          : loop_io_add(box->loop, &box->guest.io, box->guest.fd, EPOLLIN, installer_on_io,
                        installer);
    return r ? r
             : loop_io_add(box->loop, &installer->log_io, installer->log_fd, EPOLLIN,
                           installer_on_log, installer);
}

static void installer_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    struct fail fail = {};
    if (reply->error == ECONNRESET) {
        return; /* the sandbox dies */
    }
    int r = reply->error ? -reply->error : installer_attach(box->installer, fds);
    if (r < 0) {
        (void)fail_set(&fail, -r, "cannot start the interpreter");
        box_broken(box, &fail);
        return;
    }
    box->guest.pid = reply->pid;
}

static int installer_start_program(struct box *box, struct fail *ret_fail)
{
    struct wire_request request = {.op = WIRE_START_PROGRAM};
    int r = box_ask(box, &request, installer_started, box);
    return r < 0 ? fail_set(ret_fail, -r, "cannot start the interpreter") : 0;
}

static bool was_killed_for_memory(struct box_installer *installer)
{
    struct box_installer_end *end = &installer->end;
    if (!end->out_of_memory && cgroup_oom_happened(&installer->box->cgroup)) {
        end->out_of_memory = true;
        end->used_bytes = cgroup_memory_peak(&installer->box->cgroup);
        end->limit_bytes = installer->spec.limits.memory_bytes;
    }
    return end->out_of_memory;
}

static void installer_exited(struct box *box, pid_t pid, int status)
{
    struct box_installer *installer = box->installer;
    if (pid != box->guest.pid) {
        return;
    }
    for (unsigned i = 0; i < INSTALLER_READS && installer_read(installer); i++) {
    }
    if (box->state == BOX_DEAD) {
        return;
    }
    if (!box->guest.host_pid && box_confinement_failed(box, status, &installer->why)) {
        box_broken(box, &installer->why);
        return;
    }
    bool oom = was_killed_for_memory(installer);
    if (WIFSIGNALED(status)) {
        bool killed = WTERMSIG(status) == SIGKILL && oom;
        installer_set_end(installer, killed ? BOX_INSTALLER_OOM : BOX_INSTALLER_SIGNAL,
                          WTERMSIG(status));
    } else {
        installer_set_end(installer, BOX_INSTALLER_EXITED, WEXITSTATUS(status));
    }
    /* Processes that it started may still be writing; reads only what is in the pipe. */
    for (unsigned i = 0; i < INSTALLER_READS && installer_read_log(installer); i++) {
    }
    box_kill(box);
}

static void installer_memory_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_installer_end *end = &box->installer->end;
    end->out_of_memory = true;
    end->used_bytes = reply->memory_bytes;
    end->limit_bytes = box->spec->limits.memory_bytes;
}

static void installer_disk_killed(struct box *box, const struct wire_reply *reply)
{
    struct box_installer *installer = box->installer;
    installer_set_end(installer, BOX_INSTALLER_DISK, 0);
    installer->end.used_bytes = reply->disk_bytes;
    installer->end.limit_bytes = box->spec->packages_bytes;
    box_kill(box);
}

/* --- the interface --- */

static void installer_content(struct box_installer *installer, const struct box_packages *packages,
                              struct plan_content *content)
{
    const struct box_installer_spec *wanted = installer->wanted;
    const struct box_paths *paths = &installer->spec.paths;
    *content = (struct plan_content){.files = wanted->program,
                                     .main = wanted->main,
                                     .arguments = {wanted->argument},
                                     .installer = true};
    packages_show(packages, content);
    const struct plan_mount shown[] = {
        {packages->staging, paths->staging, .writable = true},
        {wanted->cache ? packages->download : NULL, paths->cache, .writable = true},
        {wanted->find_links, paths->find_links, .writable = false},
        {wanted->constraint, paths->constraint, .writable = false},
        {wanted->cert, paths->certificate, .writable = false},
    };
    for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
        if (shown[i].source) {
            plan_show(content, shown[i].source, shown[i].target, shown[i].writable);
        }
    }
}

/* Shows the user's files where the installer's uid can read them. */
static int installer_see_files(struct box_installer *installer, struct fail *ret_fail)
{
    const struct box_installer_spec *wanted = installer->wanted;
    struct box_scratch *scratch = installer->spec.scratch;
    struct box_paths *paths = &installer->spec.paths;
    paths->find_links = wanted->find_links ? wanted->find_links : "";
    paths->constraint = "";
    paths->certificate = "";
    if (wanted->find_links && scratch->ids.installer != geteuid() &&
        !uid_pool_all_reach(wanted->find_links)) {
        return fail_set(ret_fail, EACCES,
                        "the directory of wheels %s; the installer has a separate uid: copy the "
                        "wheels to a directory that every user can read",
                        wanted->find_links);
    }
    int r = wanted->constraint ? scratch_copy_file(scratch, SCRATCH_CONSTRAINT, wanted->constraint,
                                                   &paths->constraint, ret_fail)
                               : 0;
    return r == 0 && wanted->cert ? scratch_copy_file(scratch, SCRATCH_CERTIFICATE, wanted->cert,
                                                      &paths->certificate, ret_fail)
                                  : r;
}

/* Without its own root, the installer finds everything at the host's paths. */
static int installer_see_scratch(struct box_installer *installer,
                                 const struct box_packages *packages, struct fail *ret_fail)
{
    struct box_paths *paths = &installer->spec.paths;
    paths->work = packages->staging;
    paths->tmp = paths->home = packages->staging;
    paths->staging = packages->staging;
    paths->cache = packages->download;
    int r = scratch_add_installer(installer->spec.scratch, installer->wanted->program,
                                  installer->spec.bundle, paths, ret_fail);
    return r ? r : installer_see_files(installer, ret_fail);
}

/* Messages may quote these files, so code must not be able to replace one by a symlink. */
static int check_files(const struct box_spec *spec, const struct box_installer_spec *wanted,
                       struct fail *ret_fail)
{
    static const char fix[] = "move it to another directory";
    const char *const files[][2] = {{"the constraint file", wanted->constraint},
                                    {"the certificate file", wanted->cert},
                                    {"the directory of wheels", wanted->find_links}};
    int r = 0;
    for (unsigned i = 0; i < 3 && r == 0; i++) {
        r = files[i][1] ? trust_check(spec, files[i][0], files[i][1], fix, ret_fail) : 0;
    }
    return r;
}

int box_installer_start(struct box_packages *packages,
                        const struct box_installer_spec *installer_spec,
                        const struct box_installer_events *events, void *arg,
                        struct box_installer **ret_installer, struct fail *ret_fail)
{
    static const struct box_role role = {installer_start_program, installer_exited,
                                         installer_memory_killed, installer_disk_killed};
    struct plan_content content;
    struct loop *loop = packages->loop;
    const struct box_spec *spec = packages->spec;
    if (packages_open(packages) < 0) {
        *ret_fail = packages->error;
        return -ENOENT;
    }
    int r = check_files(spec, installer_spec, ret_fail);
    r = r ? r : packages_make_staging(packages, ret_fail);
    if (r < 0) {
        return r;
    }
    struct box_installer *installer = calloc(1, sizeof *installer);
    if (!installer) {
        return fail_set(ret_fail, ENOMEM, "an installer");
    }
    installer->loop = loop;
    installer->wanted = installer_spec;
    installer->events = events;
    installer->arg = arg;
    installer->log_fd = -1;
    installer->spec = *spec;
    installer->spec.workspace = NULL;
    installer->spec.cow = false;
    installer->spec.workspace_elsewhere = spec->workspace;
    installer->spec.egress = installer_spec->egress;
    installer->spec.limits.disk_bytes = spec->packages_bytes; /* also the limit of one file */
    r = spec->scratch ? installer_see_scratch(installer, packages, ret_fail) : 0;
    if (r < 0) {
        installer_release(installer);
        return r;
    }
    installer_content(installer, packages, &content);
    struct box_owner owner = {loop, installer_on_state, installer, &installer->report,
                              installer_on_egress};
    struct box_setup setup = {&role, installer, &content};
    r = box_open(&installer->spec, &owner, &setup, &installer->box, ret_fail);
    if (r < 0) {
        installer_release(installer);
        return r;
    }
    loop_timer_in(loop, &installer->timer, installer_spec->time_limit_ms, installer_on_timer,
                  installer);
    *ret_installer = installer;
    return 0;
}

void box_installer_request(struct box_installer *installer)
{
    loop_timer_in(installer->loop, &installer->timer, installer->wanted->time_limit_ms,
                  installer_on_timer, installer);
    if (installer->box->state == BOX_READY) {
        (void)loop_io_set(&installer->box->guest.io, EPOLLIN | EPOLLOUT);
    }
}

void box_installer_cancel(struct box_installer *installer)
{
    installer_stop(installer, BOX_INSTALLER_CANCELLED);
}

void box_installer_free(struct box_installer *installer)
{
    if (installer) {
        installer_release(installer);
    }
}
