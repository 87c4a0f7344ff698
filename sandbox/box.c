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
#include "sandbox/binds.h"
#include "sandbox/channel.h"

enum {
    ZYGOTE_DEATHS = 8, /* by the guest's hand, before the box is given up */
    REAP_MS = 250,
    SCOPE_MS = 5000, /* for systemd to answer; it takes 10 where nothing is wrong */
};

void box_spec_init(struct box_spec *spec)
{
    *spec = (struct box_spec){.limits = {.memory_bytes = DEFAULT_MEMORY_BYTES,
                                         .disk_bytes = DEFAULT_DISK_BYTES,
                                         .disk_inodes = DEFAULT_DISK_INODES,
                                         .pids = DEFAULT_PIDS}};
}

static void box_close(struct box *box)
{
    loop_io_remove(&box->pidfd_io);
    loop_io_remove(&box->error_io);
    loop_io_remove(&box->zygote_io);
    if (box->pidfd >= 0) {
        (void)close(take_fd(&box->pidfd));
    }
    if (box->error_fd >= 0) {
        (void)close(take_fd(&box->error_fd));
    }
    if (box->zygote_fd >= 0) {
        (void)close(take_fd(&box->zygote_fd));
    }
    scope_cancel(&box->scope);
    if (box->go_fd >= 0) {
        (void)close(take_fd(&box->go_fd));
    }
    if (box->config_fd >= 0) {
        (void)close(take_fd(&box->config_fd));
    }
    buf_done(&box->zygote_in);
}

/* Kills all processes and waits until they are gone; from here on nothing of the box runs. Where
 * there are many the kernel needs its time: then the folders are left to the reaper, because a host
 * gives us half a second to end. */
static bool box_reap(struct box *box)
{
    if (box->pid <= 0) {
        return true;
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
    link_end(box);
    box_close(box);
    if (gone) {
        cgroup_remove(&box->cgroup);
        reaper_stop(box);
    } else {
        cgroup_leave(&box->cgroup);
        if (box->reaper_fd >= 0) {
            (void)close(take_fd(&box->reaper_fd)); /* which tells it */
        }
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

void box_broken(struct box *box, const struct fail *why)
{
    box_end(box, why);
}

void box_kill(struct box *box)
{
    box_end(box, NULL);
}

/* The child's report: a failed step, or the end of file that comes with execve. */
static void box_on_error_fd(void *arg, uint32_t events)
{
    struct box *box = arg;
    struct fail fail = {};
    (void)events;
    ssize_t size = read(box->error_fd, &fail, sizeof fail);
    loop_io_remove(&box->error_io);
    if (size == (ssize_t)sizeof fail) {
        fail.text[sizeof fail.text - 1] = '\0';
        box_end(box, &fail);
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
    bool oom = cgroup_oom_happened(&box->cgroup);
    (void)fail_set(&fail, 0,
                   oom ? "the sandbox ran out of memory (--memory) as a whole"
                       : "the sandbox's first process ended");
    box_end(box, &fail);
}

static void box_on_zygote_message(struct box *box, const struct box_message *message)
{
    struct box_field version;
    if (message->fields[0].size != 5 || memcmp(message->fields[0].data, "ready", 5) != 0 ||
        box->state != BOX_STARTING) {
        return;
    }
    if (box_message_get(message, "python", &version) && version.size < sizeof box->version) {
        memcpy(box->version, version.data, version.size);
        box->version[version.size] = '\0';
    }
    box->state = BOX_READY;
    box->on_state(box->arg, BOX_READY, NULL);
}

static void box_on_zygote(void *arg, uint32_t events)
{
    struct box *box = arg;
    struct box_field fields[16];
    char *space = NULL;
    (void)events;
    if (buf_reserve(&box->zygote_in, 4096, &space) < 0) {
        return;
    }
    ssize_t size = recv(box->zygote_fd, space, 4096, MSG_DONTWAIT);
    if (size <= 0) {
        if (size == 0) {
            loop_io_remove(&box->zygote_io); /* pid 1 tells how it ended */
        }
        return;
    }
    buf_commit(&box->zygote_in, (size_t)size);
    size_t count = 0;
    size_t used = 0;
    while (box->state != BOX_DEAD &&
           channel_next(&box->zygote_in, fields, 16, &count, &used) == CHANNEL_MESSAGE) {
        box_on_zygote_message(box, &(struct box_message){fields, count});
        if (box->state != BOX_DEAD) {
            buf_consume(&box->zygote_in, used);
        }
    }
}

static void box_zygote_started(void *arg, const struct wire_reply *reply, int fd)
{
    struct box *box = arg;
    (void)fd;
    if (reply->error == 0) {
        box->zygote_pid = reply->pid;
    } else if (reply->error != ECONNRESET) {
        struct fail fail = {};
        (void)fail_set(&fail, reply->error, "start the interpreter");
        box_end(box, &fail);
    }
}

/* Waits with nothing: the request lies in the socket until pid 1 is there to read it. Requests for
 * sessions wait in the zygote's own socket in the same way. */
static int box_start_zygote(struct box *box, struct fail *ret_fail)
{
    int ends[2];
    loop_io_remove(&box->zygote_io);
    if (box->zygote_fd >= 0) {
        (void)close(take_fd(&box->zygote_fd));
    }
    buf_clear(&box->zygote_in, 0);
    box->zygote_pid = 0;
    int r = fd_socketpair(SOCK_STREAM, ends);
    if (r == 0) {
        box->zygote_fd = ends[0];
        r = loop_io_add(box->loop, &box->zygote_io, ends[0], EPOLLIN, box_on_zygote, box);
        if (r == 0) {
            struct wire_request request = {.op = WIRE_START_ZYGOTE};
            r = link_send(box, &request, ends[1], box_zygote_started, box);
        }
        (void)close(ends[1]);
    }
    return r < 0 ? fail_set(ret_fail, -r, "start the interpreter") : 0;
}

static const char *zygote_failure(int status)
{
    static const char *const steps[] = {
        "a new session for the interpreter", "the interpreter's resource limits",
        "the interpreter's descriptors",     "the interpreter's seccomp filters",
        "execute the interpreter",           "find the interpreter in the sandbox",
        "the interpreter's Landlock domain",
    };
    unsigned step = WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) - 101 : ~0U;
    return step < sizeof steps / sizeof *steps ? steps[step] : NULL;
}

void box_process_exited(struct box *box, pid_t pid, int status)
{
    struct fail fail = {};
    if (pid != box->zygote_pid) {
        (void)session_process_exited(box, pid, status);
        return;
    }
    if (box->state == BOX_READY && box->zygote_deaths++ < ZYGOTE_DEATHS &&
        box_start_zygote(box, &fail) == 0) {
        log_info("sandbox", "the zygote was killed; another is started");
        session_zygote_died(box);
        return;
    }
    const char *step = zygote_failure(status);
    if (step) {
        (void)fail_set(&fail, 0, "could not %s %s", step, box->python.path);
    } else if (WIFSIGNALED(status)) {
        (void)fail_set(&fail, 0, "the interpreter %s was killed by signal %d (%s)",
                       box->python.path, WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        (void)fail_set(&fail, 0,
                       "the interpreter %s ended with exit code %d before it was ready (a CPython "
                       "3.9 or newer is needed; choose one with --python PATH)",
                       box->python.path, WEXITSTATUS(status));
    }
    box_end(box, &fail);
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
        if (box->error_io.loop) { /* the child's own word, if it has left one */
            box_on_error_fd(box, EPOLLIN);
        }
        box_end(box, &fail);
    }
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
    /* Joining a group can take the kernel 15 ms (a grace period of RCU), and systemd longer: the child
     * builds its root meanwhile, and waits for it before anything of the guest runs. */
    if (box->cgroup.wants_scope) {
        struct scope_request request = {.name = box->cgroup.name,
                                        .pid = box->pid,
                                        .limits = &box->spec->limits,
                                        .within_ms = SCOPE_MS};
        r = scope_ask(&box->scope, box->loop, &request, box_on_scope, box);
        if (r == 0) {
            return 0;
        }
        cgroup_refuse_scope(&box->cgroup, r == -ENOENT ? "systemd is here, but not busctl"
                                                       : "busctl cannot be started");
    }
    return launch_confine(box, ret_fail);
}

/* To what this kernel has. */
static void adapt_plan(struct plan *plan)
{
    if (binds_needed()) {
        plan_use_binds(plan);
    }
}

static int box_prepare(struct box *box, struct fail *ret_fail)
{
    int r = python_find(box->spec->python, &box->python, ret_fail);
    r = r ? r : plan_build(box->spec, &box->python, &box->plan, ret_fail);
    if (r == 0) {
        adapt_plan(&box->plan);
        cgroup_find(&box->cgroup);
        reaper_start(box);
        cgroup_make(&box->cgroup, &box->spec->limits);
    }
    return r;
}

int box_start(struct loop *loop, const struct box_spec *spec, box_state_fn on_state, void *arg,
              struct box **ret_box, struct fail *ret_fail)
{
    struct box *box = calloc(1, sizeof *box);
    if (!box) {
        return fail_set(ret_fail, ENOMEM, "the sandbox");
    }
    box->loop = loop;
    box->spec = spec;
    box->on_state = on_state;
    box->arg = arg;
    box->pidfd = -1;
    box->error_fd = -1;
    box->link.fd = -1;
    box->zygote_fd = -1;
    box->reaper_fd = -1;
    box->go_fd = -1;
    box->config_fd = -1;
    box->last_tag = WIRE_TAG_ZYGOTE;
    int r = box_prepare(box, ret_fail);
    r = r ? r : box_launch(box, ret_fail);
    r = r ? r : box_start_zygote(box, ret_fail);
    if (r < 0) {
        box->state = BOX_DEAD; /* no on_state: the caller gets the reason here */
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

enum box_layer_state box_memory_state(const struct box *box)
{
    return cgroup_has(&box->cgroup, CGROUP_MEMORY) ? BOX_LAYER_ON : BOX_LAYER_DEGRADED;
}

enum box_layer_state box_pids_state(const struct box *box)
{
    return cgroup_has(&box->cgroup, CGROUP_PIDS) ? BOX_LAYER_ON : BOX_LAYER_DEGRADED;
}

int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail)
{
    struct python *python = calloc(1, sizeof *python);
    struct plan *plan = calloc(1, sizeof *plan);
    int r = python && plan ? 0 : fail_set(ret_fail, ENOMEM, "the sandbox's plan");
    r = r ? r : python_find(spec->python, python, ret_fail);
    r = r ? r : plan_build(spec, python, plan, ret_fail);
    if (r == 0) {
        adapt_plan(plan);
        r = plan_print(plan, out);
        plan_done(plan);
    }
    free(python);
    free(plan);
    return r;
}
