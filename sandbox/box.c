/* The life of a box, as the server sees it.
 *
 *   box_start: find the interpreter, build the plan, make the cgroup, clone; map the ids, join the
 *   group, say go. The child carries the plan out and executes pid 1, which starts the zygote; its
 *   "ready" makes the box BOX_READY. Each stage can fail, and the first that does is the reason
 *   that on_state(BOX_DEAD) tells: the child's own sentence, the zygote's exit code, or an end
 *   without a word.
 *
 * Killing is one signal: pid 1 is the init of a pid namespace, and the kernel kills the rest. */
#include "sandbox/box.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/plan/binds.h"
#include "sandbox/room_inside.h"
#include "sandbox/trust/trust.h"
#include "sandbox/wire/channel.h"
#include "sandbox/wire/packet.h"

enum {
    REAP_MS = 250,
    SCOPE_MS = 5000, /* for systemd to answer; it takes 10 where nothing is wrong */
};

void box_spec_init(struct box_spec *spec)
{
    *spec = (struct box_spec){.limits = {.memory_bytes = DEFAULT_MEMORY_BYTES,
                                         .disk_bytes = DEFAULT_DISK_BYTES,
                                         .disk_inodes = DEFAULT_DISK_INODES,
                                         .pids = DEFAULT_PIDS},
                              .view = box_view_full,
                              .packages = true,
                              .packages_bytes = DEFAULT_PACKAGES_BYTES};
}

static void box_close(struct box *box)
{
    prove_stop(box);
    loop_io_remove(&box->pidfd_io);
    loop_io_remove(&box->error_io);
    loop_io_remove(&box->guest_io);
    drop_fd(&box->pidfd);
    drop_fd(&box->error_fd);
    drop_fd(&box->guest_fd);
    for (unsigned i = 0; i < WIRE_FDS; i++) {
        drop_fd(&box->pair[i]);
    }
    scope_cancel(&box->scope);
    drop_fd(&box->go_fd);
    drop_fd(&box->config_fd);
    box_protected_leave(&box->workspace_fd);
    buf_done(&box->guest_in);
}

/* Kills all processes and waits until they are gone; from here on nothing of the box runs. Where
 * there are many the kernel needs its time: then the folders are left to the reaper, because a host
 * gives us half a second to end. */
static bool box_reap(struct box *box)
{
    if (box->pid <= 0) {
        return true;
    }
    if (box->plan.profile == BOX_CONTAINER) {
        return guardian_reap(box);
    }
    /* First of all, before anything is said or logged: pid 1 takes the rest with it. */
    (void)kill(box->pid, SIGKILL);
    struct pollfd ended = {.fd = box->pidfd, .events = POLLIN};
    bool gone = box->pidfd < 0 || poll(&ended, 1, REAP_MS) == 1;
    while (gone && waitpid(box->pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    box->pid = 0;
    return gone;
}

static void box_release(struct box *box, bool gone)
{
    box_egress_end(box);
    lookout_stop(box);
    link_end(box);
    box_close(box);
    if (gone) {
        cgroup_remove(&box->cgroup);
        reaper_stop(box);
    } else {
        cgroup_leave(&box->cgroup);
        drop_fd(&box->reaper_fd); /* which tells it */
    }
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

/* A box that never became ready tells its reason as the grade does, with a remedy. */
void box_broken(struct box *box, const struct fail *why)
{
    struct fail told = *why;
    if (box->state == BOX_STARTING) {
        box_grade_of_failure(box, why, &told);
    }
    box_end(box, &told);
}

void box_kill(struct box *box)
{
    box_end(box, NULL);
}

/* Whether the child has left a report of a step that did not work. Takes what it has found, and forgets
 * its end when that has come. Does not wait. */
static bool box_child_reported(struct box *box, struct fail *ret_fail)
{
    struct pollfd said = {.fd = box->error_fd, .events = POLLIN};
    while (box->error_fd >= 0 && poll(&said, 1, 0) == 1) {
        struct fail fail = {};
        if (read(box->error_fd, &fail, sizeof fail) != (ssize_t)sizeof fail) {
            loop_io_remove(&box->error_io);
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

/* The child's report: a failed step, or the end of file that comes with execve. */
static void box_on_error_fd(void *arg, uint32_t events)
{
    struct box *box = arg;
    struct fail fail = {};
    (void)events;
    if (box_child_reported(box, &fail)) {
        loop_io_remove(&box->error_io);
        box_broken(box, &fail);
    }
}

static void box_on_pidfd(void *arg, uint32_t events)
{
    struct box *box = arg;
    struct fail fail = {};
    (void)events;
    if (box->error_io.loop) { /* its report may lie in the pipe behind this event */
        box_on_error_fd(box, EPOLLIN);
        if (box->state == BOX_DEAD) {
            return;
        }
    }
    siginfo_t ended = {};
    bool exited = waitid(P_PIDFD, (id_t)box->pidfd, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                  ended.si_code == CLD_EXITED;
    if (!exited || !box_confinement_failed(box, W_EXITCODE(ended.si_status, 0), &fail)) {
        bool oom = cgroup_oom_happened(&box->cgroup);
        (void)fail_set(&fail, 0,
                       oom ? "the sandbox ran out of memory (--memory) as a whole"
                           : "the sandbox's first process ended");
    }
    box_broken(box, &fail);
}

void box_guest_ready(struct box *box, pid_t pid)
{
    box->interpreter = pid;
    prove_wait(box);
    box_settle(box);
}

/* Usable when the interpreter waits and the proof holds. Each interpreter is looked at, also the one
 * that replaces another in a box that is in use. */
void box_settle(struct box *box)
{
    struct proof_verdict verdict;
    if (!box->interpreter || !box->prove.heard || box->state == BOX_DEAD ||
        prove_judge(box, box->interpreter, &verdict) < 0) {
        return; /* pid 1 tells when the interpreter has ended */
    }
    box_grade_of_verdict(box, &verdict);
    struct fail fail = {};
    if (box->grade->usable && box->grade->profile == BOX_FULL_WITHOUT_PROC &&
        lookout_start(box, &fail) < 0) {
        box_broken(box, &fail);
    } else if (!box->grade->usable) {
        (void)fail_set(&fail, 0, "%s", box->grade->refusal);
        box_end(box, &fail);
    } else if (box->state == BOX_STARTING) {
        box->state = BOX_READY;
        box->on_state(box->arg, BOX_READY, NULL);
    }
}

static void box_on_scope(void *arg, const char *trouble)
{
    struct box *box = arg;
    struct fail fail = {};
    if (!trouble && cgroup_take_scope(&box->cgroup, box->pid, &box->spec->limits) < 0) {
        trouble = "the scope cannot be opened";
    }
    if (trouble) {
        log_info("sandbox", "%s", trouble);
        cgroup_refuse_scope(&box->cgroup, trouble);
    }
    if (launch_confine(box, &fail) < 0) {
        (void)box_child_reported(box, &fail); /* its own word, if it has left one, is better */
        box_broken(box, &fail);
    }
}

/* Whether systemd is asked to make the group; box_on_scope() goes on then. */
static bool box_ask_scope(struct box *box)
{
    char program[PATH_MAX];
    struct scope_request request = {.program = program,
                                    .name = box->cgroup.name,
                                    .pid = box->pid,
                                    .limits = &box->spec->limits,
                                    .within_ms = SCOPE_MS};
    int r = trust_find_system_program(box->spec, "busctl", program)
                ? scope_ask(&box->scope, box->loop, &request, box_on_scope, box)
                : -ENOENT;
    if (r < 0) {
        cgroup_refuse_scope(&box->cgroup, r == -ENOENT  ? "systemd is here, but not busctl"
                                          : r == -EXDEV ? "systemd is in another pid namespace"
                                                        : "busctl cannot be started");
    }
    return r == 0;
}

static int box_launch(struct box *box, struct fail *ret_fail)
{
    int r = launch_child(box, ret_fail);
    if (r < 0) {
        return r;
    }
    r = loop_io_add(box->loop, &box->error_io, box->error_fd, EPOLLIN, box_on_error_fd, box);
    r = r ? r : loop_io_add(box->loop, &box->pidfd_io, box->pidfd, EPOLLIN, box_on_pidfd, box);
    if (r < 0) {
        return fail_set(ret_fail, -r, "the sandbox's descriptors");
    }
    /* Joining a group can take the kernel 15 ms (a grace period of RCU), and systemd longer; the guest's
     * filters take some too. The child builds its root meanwhile, and waits for them before anything
     * of the guest runs. */
    bool asked = box->cgroup.wants_scope && box_ask_scope(box);
    enum box_layer building = box->building;
    box->building = BOX_LAYER_SECCOMP;
    r = plan_build_guest_filters(&box->plan, ret_fail);
    if (r < 0) {
        return r;
    }
    box->building = building;
    return asked ? 0 : launch_confine(box, ret_fail);
}

/* To what this kernel has. */
void box_adapt_plan(struct plan *plan)
{
    if (binds_needed()) {
        plan_use_binds(plan);
    }
}

static int box_prepare(struct box *box, const struct plan_content *content, struct fail *ret_fail)
{
    const struct box_spec *spec = box->spec;
    if (spec->no_room) {
        box->building = BOX_LAYER_PRIVILEGES;
        (void)fail_set(ret_fail, 0, "%s", spec->no_room);
        return -ENOENT;
    }
    box->building = BOX_LAYER_PYTHON;
    int r = python_find(spec, &box->python, ret_fail);
    if (r < 0) {
        return r;
    }
    box->building = BOX_LAYER_MOUNTS;
    r = box_mounts_judge_now(spec, ret_fail);
    r = r ? r : plan_build(box->spec, &box->python, content, &box->plan, ret_fail);
    if (r == 0) {
        box->building = BOX_LAYER_SECCOMP;
        r = plan_build_init_filter(&box->plan, ret_fail);
    }
    r = r ? r : box_egress_listen(box, ret_fail);
    r = r || !spec->room || box->errand
            ? r
            : room_prepare(spec->room, box->plan.outside_uid, box->plan.outside_gid, ret_fail);
    if (r == 0) {
        box->workspace_fd = box->errand ? -1 : box_protected_join(spec);
        box->plan.workspace_shared = box_protected_is_shared(box->workspace_fd);
        box_adapt_plan(&box->plan);
        cgroup_find(&box->cgroup);
        reaper_start(box);
        cgroup_make(&box->cgroup, &box->spec->limits);
    }
    return r;
}

/* Without anything of it: all descriptors are none. */
static struct box *box_new(struct loop *loop, const struct box_spec *spec,
                           const struct box_owner *owner)
{
    struct box *box = calloc(1, sizeof *box);
    if (box) {
        box->loop = loop;
        box->spec = spec;
        box->on_state = owner->on_state;
        box->arg = owner->arg;
        box->grade = owner->grade;
        box->on_egress = owner->on_egress;
        box->prove.fd = -1;
        box->pidfd = -1;
        box->error_fd = -1;
        box->link.fd = -1;
        box->lookout.fd = -1;
        box->guest_fd = -1;
        box->reaper_fd = -1;
        box->go_fd = -1;
        box->config_fd = -1;
        box->workspace_fd = -1;
        box->egress_listen_fd = -1;
        box->last_tag = WIRE_TAG_ZYGOTE;
        box->pair[0] = -1;
        box->pair[1] = -1;
    }
    return box;
}

int box_open(struct loop *loop, const struct box_spec *spec, const struct box_owner *owner,
             const struct box_setup *setup, struct box **ret_box, struct fail *ret_fail)
{
    struct fail fail = {};
    struct box *box = box_new(loop, spec, owner);
    if (!box) {
        return fail_set(ret_fail, ENOMEM, "the sandbox");
    }
    box->role = setup->role;
    box->errand = setup->errand;
    int r = box_prepare(box, setup->content, &fail);
    r = r ? r : box_launch(box, &fail);
    r = r ? r : box_egress_start(box, &fail);
    r = r ? r : box->role->start(box, &fail);
    r = r ? r : prove_start(box, &fail);
    if (r < 0) {
        (void)box_child_reported(box, &fail);
        box->state = BOX_DEAD; /* no on_state: the caller gets the reason here */
        box_grade_of_failure(box, &fail, ret_fail);
        box_release(box, box_reap(box));
        plan_done(&box->plan);
        free(box);
        return r;
    }
    *ret_box = box;
    return 0;
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

const char *box_python_version(const struct box *box)
{
    return box->version;
}

const char *box_python_path(const struct box *box)
{
    return box->python.path;
}

bool box_memory_killed(struct box *box)
{
    bool killed = cgroup_oom_happened(&box->cgroup) || box->memory_killed;
    box->memory_killed = false;
    return killed;
}

uint64_t box_memory_used(const struct box *box, uint64_t matters_bytes)
{
    return cgroup_memory_used(&box->cgroup, matters_bytes);
}
