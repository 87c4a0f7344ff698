#include "sandbox/box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/programs/program.h"
#include "sandbox/protocol/packet.h"

void box_broken(struct box *box, const struct fail *why)
{
    box->handlers->broken(box, why);
}

static void box_on_event(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    switch ((enum wire_event)reply->event) {
    case WIRE_PAIR_MADE:
        if (box->role->pair_made) {
            box->role->pair_made(box, reply, fds);
        }
        break;
    case WIRE_EXITED:
        box->role->exited(box, reply->pid, reply->status);
        break;
    case WIRE_DISK:
        box->role->disk_killed(box, reply);
        break;
    case WIRE_MEMORY:
        box->role->memory_killed(box, reply);
        break;
    case WIRE_RESPONSE:
    case WIRE_EVENT_COUNT:
    default:
        break;
    }
}

static void box_on_monitor_end(void *arg)
{
    struct fail fail = {};
    (void)fail_set(&fail, 0, "process monitor exited");
    box_broken(arg, &fail);
}

static void drop_keeper(struct box *box)
{
    init_client_close(&box->keeper.client);
    drop_fd(&box->keeper.greet_fd);
    drop_fd(&box->keeper.watch_fd);
    drop_fd(&box->cow.overlay_fd);
    box->keeper.watches = box->keeper.is_blind = false;
}

/* Whoever waits for it learns that it has died; what it kept is lost. Another one still sees what
 * differs from the user's directory. */
static void box_on_keeper_end(void *arg)
{
    enum { KEEPERS_MOST = 100 };
    struct box *box = arg;
    drop_keeper(box);
    if (box->keeper.started < KEEPERS_MOST) {
        log_warn("sandbox", "the keeper of file states exited and is being restarted");
        box_start_keeper(box);
    }
}

void box_init_prepare(struct box *box)
{
    box->keeper.client = (struct init_client){
        .fd = -1, .on_event = box_on_event, .on_end = box_on_keeper_end, .arg = box};
    /* The pidfd reports that init has exited, with the reason. */
    box->init = (struct init_client){.fd = -1, .on_event = box_on_event, .arg = box};
    box->monitor = (struct init_client){
        .fd = -1, .on_event = box_on_event, .on_end = box_on_monitor_end, .arg = box};
}

int box_ask(struct box *box, struct wire_request *request, init_client_fn fn, void *arg)
{
    /* A request that needs a /proc goes to the program that has one. */
    bool needs_proc = request->op == WIRE_KILL_TAG || request->op == WIRE_COUNT ||
                      request->op == WIRE_TRACE || request->op == WIRE_LOOK ||
                      request->op == WIRE_RANK;
    if (request->op == WIRE_WATCH && box->init.fd >= 0) {
        (void)box_tell_monitor(box, request); /* no id: no response is expected */
    }
    return init_client_send(needs_proc && box->monitor.fd >= 0 ? &box->monitor : &box->init,
                            request, fn, arg);
}

int box_ask_keeper(struct box *box, struct wire_request *request, init_client_fn fn, void *arg)
{
    if (box->keeper.client.fd < 0) {
        return -ENOTCONN;
    }
    request->fresh_ns = box->cow.fresh_ns;
    return fn ? init_client_send(&box->keeper.client, request, fn, arg)
              : init_client_post(&box->keeper.client, request);
}

/* A file system that is configured again drops the names that nobody uses, whatever changes in it:
 * reconfigure_super() in fs/super.c. The server may do it, because it owns the user namespace that
 * the overlay belongs to, user_namespaces(7). */
void box_refresh_workspace(struct box *box)
{
    int64_t now_ns = clock_file_ns(); /* not later than what changes meanwhile */
    if (box->cow.overlay_fd >= 0 &&
        syscall(SYS_fsconfig, box->cow.overlay_fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) == 0) {
        box->cow.fresh_ns = now_ns;
    }
}

static void box_keeper_started(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box *box = arg;
    if (reply->error == ECONNRESET) {
        return; /* the sandbox ends */
    }
    if (reply->error || init_client_start(&box->keeper.client, box->loop, take_fd(&fds[0])) < 0) {
        log_warn("sandbox", "no keeper of file states: undo covers variables only");
        return;
    }
    drop_fd(&box->keeper.greet_fd);
    box->keeper.greet_fd = take_fd(&fds[1]);
    int *second = box->spec->cow ? &box->cow.overlay_fd : &box->keeper.watch_fd;
    drop_fd(second);
    *second = take_fd(&fds[2]);
    box->keeper.pid = reply->pid;
    (void)box_tell_monitor_keeper(box);
    box->keeper.is_fresh = true;
}

void box_start_keeper(struct box *box)
{
    if (!box->installer) {
        struct wire_request request = {.op = WIRE_START_KEEPER, .again = box->keeper.started > 0};
        box->keeper.started++;
        (void)box_ask(box, &request, box_keeper_started, box);
    }
}

void box_forget(struct box *box, const void *arg)
{
    init_client_forget(&box->keeper.client, arg);
    init_client_forget(&box->init, arg);
    init_client_forget(&box->monitor, arg);
}

int box_tell_monitor(struct box *box, const struct wire_request *request)
{
    return box->monitor.fd < 0 ? 0 : init_client_post(&box->monitor, request);
}

int box_tell_monitor_keeper(struct box *box)
{
    return box_tell_monitor(
        box,
        &(struct wire_request){.op = WIRE_WATCH, .pid = box->keeper.pid, .role = WIRE_ROLE_KEEPER});
}

void box_init_close(struct box *box)
{
    drop_keeper(box);
    init_client_close(&box->init);
    init_client_close(&box->monitor);
}

enum { WAIT_MS = 250 };

/* One helper for the whole process. When its socket ends, the process is gone. */
static struct {
    pid_t pid;
    int fd; /* -1: not running */
    unsigned items;
} helper = {.fd = -1};

static int start_helper(void)
{
    static const char *const argv[] = {"sandpiper-cleanup", NULL};
    helper.pid = program_spawn(argv, NULL, &helper.fd);
    return helper.pid < 0 ? helper.pid : 0;
}

static int send_request(const struct cleanup *item, bool is_due)
{
    struct cleanup_request request = {.is_due = is_due, .kind = item->kind};
    (void)snprintf(request.name, sizeof request.name, "%s", item->name);
    for (;;) {
        bool is_new = helper.fd < 0;
        ssize_t r = is_new ? start_helper() : 0;
        r = r ? r
              : packet_send(helper.fd, &request, sizeof request, item->parents, item->parent_count,
                            MSG_DONTWAIT);
        if (r >= 0 || is_new || r == -EAGAIN) {
            return r < 0 ? (int)r : 0;
        }
        drop_fd(&helper.fd); /* somebody has killed the helper */
        (void)waitpid(helper.pid, NULL, WNOHANG);
    }
}

int cleanup_add(struct cleanup *item)
{
    int r = send_request(item, /* is_due= */ false);
    item->known = r == 0;
    helper.items += item->known;
    return r;
}

/* Lets the helper exit. Returns false when somebody has killed it. */
static bool finish_helper(void)
{
    int status = 0;
    drop_fd(&helper.fd);
    return !program_has_ended(helper.pid, WAIT_MS) ||
           waitpid(helper.pid, &status, 0) != helper.pid || !WIFSIGNALED(status);
}

void cleanup_remove(struct cleanup *item, bool wait)
{
    if (!item->known) {
        return;
    }
    item->known = false;
    helper.items--;
    (void)send_request(item, /* is_due= */ true);
    if (wait && helper.items == 0 && helper.fd >= 0 && !finish_helper() &&
        send_request(item, /* is_due= */ true) == 0) {
        (void)finish_helper();
    }
}

int cleanup_lock(int directory_fd, const char *name)
{
    struct stat st;
    defer_close int fd =
        openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    return st.st_nlink > 0 ? take_fd(&fd) : -ENOENT;
}

int cleanup_discard(int parent_fd, const char *name)
{
    static unsigned last;
    char rubbish[32];
    struct cleanup item = {CLEANUP_TREE, rubbish, &parent_fd, 1};
    (void)snprintf(rubbish, sizeof rubbish, "rubbish-%u", last + 1);
    if (renameat(parent_fd, name, parent_fd, rubbish) < 0) {
        return -errno;
    }
    last++;
    /* If the request is lost, the helper removes it with its parent. */
    (void)send_request(&item, /* is_due= */ true);
    return 0;
}
