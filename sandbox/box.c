/* The server's view of a sandbox.
 *
 * - box_start() finds the interpreter, builds the plan, makes the cgroup and clones the child. It
 *   then maps the ids, puts the child into the cgroup and lets it continue.
 * - The child executes the plan's steps and then init, which starts the zygote. The zygote's
 *   "ready" makes the sandbox BOX_READY.
 * - Each step can fail. The first failure is the reason that on_state(BOX_DEAD) reports: the
 *   child's own report, the zygote's exit code, or an exit without a report.
 *
 * Killing takes one signal: init is pid 1 of a pid namespace, so the kernel kills the rest. At
 * level `container` the supervisor kills each process (unprivileged/scratch.c). */

#include "sandbox/box.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/egress/box_egress.h"
#include "sandbox/host/host_facts.h"
#include "sandbox/host/mounts.h"
#include "sandbox/interpreter/process.h"
#include "sandbox/launch/launch.h"
#include "sandbox/packages/store.h"
#include "sandbox/programs/program.h"
#include "sandbox/report/isolation.h"
#include "sandbox/report/report.h"
#include "sandbox/trust/trust.h"
#include "sandbox/types.h"
#include "sandbox/unprivileged/unprivileged.h"

enum {
    REAP_MS = 250,
    SCOPE_MS = 5000, /* for systemd to reply; it takes 10 ms on a healthy machine */
};

static void box_release(struct box *box, bool gone)
{
    box_egress_end(box);
    program_kill(&box->monitor_pid);
    box_changes_stop(box);
    box_init_close(box);
    selftest_stop(box);
    loop_io_remove(&box->starting.io);
    loop_io_remove(&box->starting.error_io);
    loop_io_remove(&box->guest.io);
    drop_fd(&box->child.pidfd);
    drop_fd(&box->child.error_fd);
    drop_fd(&box->guest.fd);
    for (unsigned i = 0; i < 2; i++) {
        drop_fd(&box->sessions.pair[i]);
    }
    scope_cancel(&box->scope);
    drop_fd(&box->child.go_fd);
    drop_fd(&box->starting.config_fd);
    box_protected_leave(&box->workspace_fd);
    buf_done(&box->guest.in);
    cleanup_remove(&box->cleanup, /* wait= */ gone);
    cgroup_remove(&box->cgroup);
}

/* Kills all processes and waits until they are gone: nothing of the sandbox runs after this. Many
 * processes take the kernel some time. Then the cleanup helper removes the directories, because a
 * client gives the server only half a second to exit. */
static bool box_reap(struct box *box)
{
    if (box->child.pid <= 0) {
        return true;
    }
    if (box->plan.level == BOX_CONTAINER) {
        return supervisor_reap(box);
    }
    /* Before anything is reported or logged: the kernel kills the other processes with init. */
    (void)kill(box->child.pid, SIGKILL);
    struct pollfd ended = {.fd = box->child.pidfd, .events = POLLIN};
    bool gone = box->child.pidfd < 0 || poll(&ended, 1, REAP_MS) == 1;
    while (gone && waitpid(box->child.pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    box->child.pid = 0;
    return gone;
}

static void box_end(struct box *box, const struct fail *why)
{
    if (box->state == BOX_DEAD) {
        return;
    }
    box->state = BOX_DEAD;
    bool gone = box_reap(box);
    session_end_all(box);
    box_release(box, gone);
    box->on_state(box->arg, BOX_DEAD, why);
}

/* A sandbox that never became ready reports the reason as the isolation report does, with a fix. */
static void on_broken(struct box *box, const struct fail *why)
{
    struct fail reported = *why;
    if (box->state == BOX_STARTING) {
        box_report_failure(box, why, &reported);
    }
    box_end(box, &reported);
}

void box_kill(struct box *box)
{
    box_end(box, NULL);
}

/* Whether the child has reported a failed step. Reads what the child has found as well, and stops
 * watching the pipe at its end of file. Does not block. */
static bool box_child_reported(struct box *box, struct fail *ret_fail)
{
    struct pollfd said = {.fd = box->child.error_fd, .events = POLLIN};
    while (box->child.error_fd >= 0 && poll(&said, 1, 0) == 1) {
        struct fail fail = {};
        if (read(box->child.error_fd, &fail, sizeof fail) != (ssize_t)sizeof fail) {
            loop_io_remove(&box->starting.error_io);
            return false;
        }
        if (fail.code) {
            fail.text[sizeof fail.text - 1] = '\0';
            *ret_fail = fail;
            return true;
        }
        memcpy(&box->protected_names, fail.text, sizeof box->protected_names);
    }
    return false;
}

/* The child reported a failed step, or execve(2) closed the pipe. */
static void box_on_error_fd(void *arg, uint32_t)
{
    struct box *box = arg;
    struct fail fail = {};
    if (box_child_reported(box, &fail)) {
        loop_io_remove(&box->starting.error_io);
        box_broken(box, &fail);
    }
}

/* Init has exited, or the child that becomes it: the interpreter is not at fault. */
static void init_died(struct box *box, bool exited, int status, struct fail *ret_fail)
{
    if (cgroup_oom_happened(&box->cgroup)) {
        box->building = BOX_PROTECTION_MEMORY;
        (void)fail_set(ret_fail, ENOMEM, "the whole sandbox ran out of memory (--memory)");
        return;
    }
    box->building = BOX_PROTECTION_PRIVILEGES;
    (void)fail_set(ret_fail, 0,
                   exited ? "the sandbox's init exited with status %d"
                          : "the sandbox's init was killed by signal %d",
                   status);
}

static void box_on_pidfd(void *arg, uint32_t)
{
    struct box *box = arg;
    struct fail fail = {};
    if (box->starting.error_io.loop) { /* the child's report may still be in the pipe */
        box_on_error_fd(box, EPOLLIN);
        if (box->state == BOX_DEAD) {
            return;
        }
    }
    siginfo_t ended = {};
    bool known = waitid(P_PIDFD, (id_t)box->child.pidfd, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
    bool exited = known && ended.si_code == CLD_EXITED;
    if (!exited || !box_confinement_failed(box, W_EXITCODE(ended.si_status, 0), &fail)) {
        init_died(box, exited, ended.si_status, &fail);
    }
    box_broken(box, &fail);
}

/* Code may run when the interpreter is ready and the self-test has passed. Each interpreter is
 * checked, also one that replaces another in a running sandbox. */
static void on_selftest_done(struct box *box)
{
    struct selftest_verdict verdict;
    if (!box->guest.host_pid || !box->selftest.received || box->state == BOX_DEAD ||
        selftest_check(box, box->guest.host_pid, &verdict) < 0) {
        return; /* init reports an interpreter's exit */
    }
    box_report_verdict(box, &verdict);
    struct fail fail = {};
    if (box->report->usable && box->report->level == BOX_FULL_WITHOUT_PROC &&
        monitor_start(box, &fail) < 0) {
        box_broken(box, &fail);
    } else if (!box->report->usable) {
        (void)fail_set(&fail, 0, "%s", box->report->refusal);
        box_end(box, &fail);
    } else if (box->state == BOX_STARTING) {
        box->state = BOX_READY;
        box_changes_resume(box);
        box->on_state(box->arg, BOX_READY, NULL);
    }
}

static void on_guest_ready(struct box *box, pid_t pid)
{
    box->guest.host_pid = pid;
    selftest_wait(box);
    on_selftest_done(box);
}

static const struct box_handlers handlers = {
    .broken = on_broken,
    .guest_ready = on_guest_ready,
    .selftest_done = on_selftest_done,
    .give_up = box_kill,
};

static void box_on_scope(void *arg, const char *error)
{
    struct box *box = arg;
    struct fail fail = {};
    if (!error && cgroup_take_scope(&box->cgroup, box->child.pid, &box->spec->limits) < 0) {
        error = "cannot open the scope's control group";
    }
    if (error) {
        log_info("sandbox", "%s", error);
        cgroup_refuse_scope(&box->cgroup, error);
    }
    if (launch_confine(box, &fail) < 0) {
        (void)box_child_reported(box, &fail); /* the child's own report is better */
        box_broken(box, &fail);
    }
}

/* Asks systemd to make the cgroup, where it can. Then box_on_scope() continues. */
static bool box_ask_scope(struct box *box)
{
    char program[PATH_MAX];
    struct scope_request request = {.program = program,
                                    .name = box->cgroup.name,
                                    .pid = box->child.pid,
                                    .limits = &box->spec->limits,
                                    .within_ms = SCOPE_MS};
    int r = trust_find_system_program(box->spec, "busctl", program)
                ? scope_ask(&box->scope, box->loop, &request, box_on_scope, box)
                : -ENOENT;
    if (r < 0) {
        cgroup_refuse_scope(&box->cgroup, r == -ENOENT
                                              ? "systemd is running, but busctl is not installed"
                                          : r == -EXDEV ? "systemd runs in another pid namespace"
                                                        : "cannot start busctl");
    }
    return r == 0;
}

static int box_launch(struct box *box, struct fail *ret_fail)
{
    if (box->plan.level == BOX_CONTAINER) {
        supervisor_prepare();
    }
    int r = launch_child(box, ret_fail);
    if (r < 0) {
        return r;
    }
    r = loop_io_add(box->loop, &box->starting.error_io, box->child.error_fd, EPOLLIN,
                    box_on_error_fd, box);
    r = r ? r
          : loop_io_add(box->loop, &box->starting.io, box->child.pidfd, EPOLLIN, box_on_pidfd, box);
    if (r < 0) {
        return fail_set(ret_fail, -r, "the sandbox's descriptors");
    }
    /* systemd takes its time to move a process to a cgroup, and building the guest's filters takes
     * time too. The child builds its root meanwhile, and waits for both before any guest code runs.
     */
    bool asked = box->cgroup.wants_scope && box_ask_scope(box);
    enum box_protection building = box->building;
    box->building = BOX_PROTECTION_SECCOMP;
    r = plan_build_guest_filters(&box->plan, level_filters(&box->plan), ret_fail);
    if (r < 0) {
        return r;
    }
    box->building = building;
    return asked ? 0 : launch_confine(box, ret_fail);
}

/* The sandbox works without the cleanup helper too. */
static void box_announce_groups(struct box *box)
{
    box->cleanup = (struct cleanup){.kind = CLEANUP_GROUPS,
                                    .name = box->cgroup.name,
                                    .parents = box->cgroup.parent_fds,
                                    .parent_count = box->cgroup.directory_count};
    _Static_assert((int)CGROUP_DIRECTORIES <= (int)CLEANUP_PARENTS, "one request names them all");
    if (box->cgroup.directory_count > 0 && cleanup_add(&box->cleanup) < 0) {
        log_warn("sandbox", "no cleanup helper: a killed server would leave its control group");
    }
}

static int box_prepare(struct box *box, struct plan_content *content, struct fail *ret_fail)
{
    const struct box_spec *spec = box->spec;
    box->building = BOX_PROTECTION_MOUNTS;
    int r = launch_check_calls(ret_fail);
    if (r < 0) {
        return r;
    }
    if (spec->start_error) {
        box->building = BOX_PROTECTION_PRIVILEGES;
        return fail_refuse(ret_fail, ENOENT, "%s", spec->start_error);
    }
    if (spec->cow && spec->scratch) {
        box->building = BOX_PROTECTION_MOUNTS;
        return fail_refuse(ret_fail, ENOTSUP, COW_NEEDS_NAMESPACES);
    }
    box->building = BOX_PROTECTION_PYTHON;
    r = python_find(spec, &box->python, ret_fail);
    if (r < 0) {
        return r;
    }
    content->python = &box->python;
    box->building = BOX_PROTECTION_MOUNTS;
    struct host_facts facts;
    host_facts_read(spec, &facts);
    r = box_mounts_check_now(spec, ret_fail);
    r = r ? r : plan_build(level_plan(spec), spec, &facts, content, &box->plan, ret_fail);
    if (r == 0) {
        box->building = BOX_PROTECTION_SECCOMP;
        r = plan_build_init_filter(&box->plan, ret_fail);
    }
    r = r ? r : box_egress_listen(box, ret_fail);
    r = r || !spec->scratch || box->installer
            ? r
            : scratch_prepare(spec->scratch, box->plan.outside_uid, box->plan.outside_gid,
                              ret_fail);
    if (r == 0) {
        box->workspace_fd = box->installer || spec->cow ? -1 : box_protected_join(spec);
        box->plan.workspace_shared = box_protected_is_shared(box->workspace_fd);
        cgroup_find(&box->cgroup);
        box_announce_groups(box);
        cgroup_make(&box->cgroup, &box->spec->limits);
    }
    return r;
}

/* All descriptors are -1. */
static struct box *box_new(const struct box_spec *spec, const struct box_owner *owner)
{
    struct box *box = calloc(1, sizeof *box);
    if (box) {
        box->loop = owner->loop;
        box->spec = spec;
        box->handlers = &handlers;
        box->on_state = owner->on_state;
        box->arg = owner->arg;
        box->report = owner->report;
        box->egress.on_event = owner->on_egress;
        box->selftest.fd = -1;
        box->child = launch_none;
        box_init_prepare(box);
        box->guest.fd = -1;
        box->keeper.greet_fd = -1;
        box->keeper.watch_fd = -1;
        box->cow.overlay_fd = -1;
        box->cow.fresh_ns = clock_file_ns(); /* the overlay is mounted later */
        box->cow.left_journal_fd = -1;
        box->cow.left_upper_fd = -1;
        box->starting.config_fd = -1;
        box->workspace_fd = -1;
        box->egress.listen_fd = -1;
        box->sessions.last_tag = WIRE_TAG_ZYGOTE;
        box->sessions.pair[0] = -1;
        box->sessions.pair[1] = -1;
    }
    return box;
}

int box_open(const struct box_spec *spec, const struct box_owner *owner,
             const struct box_setup *setup, struct box **ret_box, struct fail *ret_fail)
{
    struct fail fail = {};
    struct box *box = box_new(spec, owner);
    if (!box) {
        return fail_set(ret_fail, ENOMEM, "the sandbox");
    }
    box->role = setup->role;
    box->installer = setup->installer;
    int r = box_prepare(box, setup->content, &fail);
    r = r ? r : box_launch(box, &fail);
    r = r ? r : box_egress_start(box, &fail);
    r = r ? r : box->role->start(box, &fail);
    r = r ? r : selftest_start(box, &fail);
    if (r < 0) {
        (void)box_child_reported(box, &fail);
        box->state = BOX_DEAD; /* without on_state: the caller receives the reason here */
        box_report_failure(box, &fail, ret_fail);
        box_release(box, box_reap(box));
        plan_done(&box->plan);
        free(box);
        return r;
    }
    *ret_box = box;
    return 0;
}

int box_start(const struct box_spec *spec, struct box_packages *packages,
              const struct box_owner *owner, struct box **ret_box, struct fail *ret_fail)
{
    struct plan_content content;
    struct box_setup setup = {.role = &zygote_role, .content = &content};
    /* The sandbox works without a package directory too; an installer reports why there is none. */
    bool have = packages && packages_open(packages) == 0;
    zygote_content(spec, have ? packages : NULL, &content);
    return box_open(spec, owner, &setup, ret_box, ret_fail);
}

void box_free(struct box *box)
{
    if (box) {
        box_kill(box);
        plan_done(&box->plan);
        free(box);
    }
}

enum box_state box_state(const struct box *box)
{
    return box->state;
}

bool box_memory_killed(struct box *box)
{
    bool killed = cgroup_oom_happened(&box->cgroup) || box->memory_killed;
    box->memory_killed = false;
    return killed;
}

uint64_t box_memory_used(struct box *box, uint64_t matters_bytes)
{
    return cgroup_memory_used(&box->cgroup, matters_bytes);
}

void box_memory_slow(struct box *box, uint64_t from_bytes)
{
    cgroup_memory_slow(&box->cgroup, from_bytes);
}

static void box_ranked(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct box *box = arg;
    box->rank.asked = false;
    box->rank.tag = reply->error ? 0 : reply->tag;
}

void box_memory_rank(struct box *box, bool is_short)
{
    struct wire_request request = {.op = WIRE_RANK, .tag = is_short};
    if (!box->rank.asked && (is_short || box->rank.is_done)) {
        box->rank.asked = box_ask(box, &request, box_ranked, box) == 0;
        box->rank.is_done = is_short;
    }
}

static int file_send(struct box *box, struct wire_request *request, const char *path,
                     init_client_fn fn, void *arg)
{
    if (strlen(path) >= sizeof request->path) {
        return -ENAMETOOLONG;
    }
    memcpy(request->path, path, strlen(path) + 1);
    return box_ask(box, request, fn, arg);
}

/* A request to init that waits for the keeper. */
struct file_ask {
    struct box *box;
    struct wire_request request;
    init_client_fn fn;
    void *arg;
};

static void followed(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct file_ask ask = *(struct file_ask *)arg;
    free(arg);
    int r =
        reply->error == ECONNRESET ? -ECONNRESET : box_ask(ask.box, &ask.request, ask.fn, ask.arg);
    if (r < 0) {
        ask.fn(ask.arg, &(struct wire_reply){.error = -r}, fds);
    }
}

/* As file_send(), once the workspace shows what the user has in DIR. */
static int file_ask(struct box *box, const struct wire_request *request, const char *path,
                    init_client_fn fn, void *arg)
{
    struct file_ask ask = {box, *request, fn, arg};
    box_refresh_workspace(box);
    struct file_ask *waiting =
        box->spec->cow && box_states_exist(box) ? malloc(sizeof *waiting) : NULL;
    if (!waiting || strlen(path) >= sizeof ask.request.path) {
        free(waiting);
        return file_send(box, &ask.request, path, fn, arg);
    }
    memcpy(ask.request.path, path, strlen(path) + 1);
    *waiting = ask;
    int r = box_ask_keeper(box, &(struct wire_request){.op = KEEP_FOLLOW}, followed, waiting);
    if (r < 0) {
        free(waiting);
    }
    return r;
}

int box_file_open(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    return file_ask(box, &(struct wire_request){.op = WIRE_OPEN_READ}, path, fn, arg);
}

int box_file_resolve(struct box *box, const char *path, init_client_fn fn, void *arg)
{
    return file_ask(box, &(struct wire_request){.op = WIRE_RESOLVE}, path, fn, arg);
}

int box_file_write(struct box *box, const char *path, enum wire_write_mode mode, init_client_fn fn,
                   void *arg)
{
    return file_ask(
        box,
        &(struct wire_request){.op = WIRE_OPEN_WRITE,
                               .write_mode = mode,
                               .keeps_attributes = !box->spec->cow}, /* apply keeps it */
        path, fn, arg);
}

int box_file_commit(struct box *box, uint32_t token, const struct stat *replaced, init_client_fn fn,
                    void *arg)
{
    struct wire_request request = {.op = WIRE_COMMIT, .token = token};
    if (replaced && !box->spec->cow) { /* there the user's files are compared later */
        request.expected = apply_facts_of(replaced);
    }
    return file_send(box, &request, "", fn, arg);
}

int box_output_make(struct box *box, const char *name, init_client_fn fn, void *arg)
{
    return file_send(box, &(struct wire_request){.op = WIRE_MAKE_OUTPUT}, name, fn, arg);
}

void box_output_remove(struct box *box, const char *name)
{
    (void)file_send(box, &(struct wire_request){.op = WIRE_REMOVE_OUTPUT}, name, NULL, NULL);
}

void box_file_abort(struct box *box, uint32_t token)
{
    (void)box_ask(box, &(struct wire_request){.op = WIRE_ABORT, .token = token}, NULL, NULL);
}

/* --- states of files --- */

bool box_states_exist(const struct box *box)
{
    return box->keeper.client.fd >= 0;
}

bool box_states_are_fresh(const struct box *box)
{
    return box->keeper.is_fresh || box->keeper.holds;
}

bool box_states_are_quiet(const struct box *box)
{
    struct pollfd watch = {.fd = box->keeper.watch_fd, .events = POLLIN};
    return box->keeper.is_blind ? true
                                : box->keeper.watches && watch.fd >= 0 && poll(&watch, 1, 0) == 0;
}

bool box_states_are_blind(const struct box *box)
{
    return box->keeper.is_blind;
}

const char *box_states_unseen(const struct box *box)
{
    struct host_facts host;
    if (!box_spec_is_written_through(box->spec) || box->guest.is_seen) {
        return NULL;
    }
    host_facts_read(box->spec, &host);
    return host.writes_unseen
               ? host.writes_unseen
               : "another program has the seccomp notifications of this container, or "
                 "the sandbox has no /proc";
}

bool box_states_are_edits(const struct box *box)
{
    return box->guest.is_seen || box_spec_is_written_through(box->spec);
}

void box_states_read(struct box *box, const struct wire_reply *reply, const int fds[WIRE_FDS],
                     struct buf *text)
{
    enum { TEXT_MOST = 1 << 20 };
    if (box) {
        box->keeper.watches = !reply->error && reply->kept.watched;
        box->keeper.holds = reply->error || reply->kept.held > 0;
        box->keeper.is_blind = !reply->error && reply->kept.blind;
    }
    /* Each item ends with a NUL; one without it would be read beyond the end. */
    if (keeper_read(fds[0], TEXT_MOST, text) < 0 || buf_size(text) == 0 ||
        buf_bytes(text)[buf_size(text) - 1] != '\0') {
        buf_clear(text, 0);
    }
}

const char *box_states_next(const struct buf *text, const char *at)
{
    const char *next = at ? at + strlen(at) + 1 : buf_bytes(text);
    return next < buf_bytes(text) + buf_size(text) ? next : NULL;
}

int box_states_begin(struct box *box, uint32_t owner, const struct keep_switch *call,
                     init_client_fn fn, void *arg)
{
    int64_t now_ns = clock_file_ns();
    box->keeper.is_fresh = false;
    box_refresh_workspace(box);
    return box_ask_keeper(box,
                          &(struct wire_request){.op = KEEP_BEGIN,
                                                 .begin = {.session = owner,
                                                           .from = call->from,
                                                           .to = call->to,
                                                           .looks = fn != NULL,
                                                           .since_ns = now_ns}},
                          fn, arg);
}

int box_states_end(struct box *box, const struct box_states_ended *ended, init_client_fn fn,
                   void *arg)
{
    enum { CLAIMS_MOST = 1000 };
    const char *claims = ended->claims;
    const char *end = claims + ended->size;
    unsigned count = 0;
    struct wire_request request = {.op = KEEP_END,
                                   .end = {.to = ended->to, .surely = ended->changed}};
    if (!ended->changed) { /* the precise clock is never behind the time of a change */
        request.end.until_ns = clock_wall_ns();
    }
    for (; claims < end && count < CLAIMS_MOST; count++) {
        const char *next = memchr(claims, '\n', (size_t)(end - claims));
        size_t length = (size_t)((next ? next : end) - claims);
        (void)keeper_name_path(box, claims, length);
        claims += length + 1;
    }
    return box_ask_keeper(box, &request, fn, arg);
}

int box_states_switch(struct box *box, uint32_t from, uint32_t to, init_client_fn fn, void *arg)
{
    return box_ask_keeper(box, &(struct wire_request){.op = KEEP_SWITCH, .switching = {from, to}},
                          fn, arg);
}

void box_states_keep(struct box *box, const struct keep_states *states)
{
    (void)box_ask_keeper(box, &(struct wire_request){.op = KEEP_STATES, .states = *states}, NULL,
                         NULL);
}

void box_states_note(struct box *box, const char *path)
{
    struct wire_request request = {.op = KEEP_NOTE};
    if (strlen(path) < sizeof request.path) {
        memcpy(request.path, path, strlen(path) + 1);
        (void)box_ask_keeper(box, &request, NULL, NULL);
        box->keeper.is_fresh = true; /* code of the next call could remove the file first */
    }
}
