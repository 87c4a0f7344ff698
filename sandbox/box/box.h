#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/loop.h"
#include "sandbox/host/python.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/plan/plan.h"
#include "sandbox/policy/rlimits.h"
#include "sandbox/protocol/helper_protocol.h"
#include "sandbox/protocol/init_client.h"
#include "sandbox/protocol/init_protocol.h"
#include "sandbox/protocol/selftest_record.h"
#include "sandbox/types.h"
#include "sandbox/workspace/protected.h"

/* --- the cleanup helper --- */

/* What would outlive a server: control groups and directories. The cleanup helper
 * (programs/cleanup), one process for all of them, removes each on request, and the rest when the
 * server is gone, for whatever reason. */

/* One item to remove: a unique name, in each of the parents. */
struct cleanup {
    enum cleanup_kind kind;
    const char *name;
    const int *parents;
    unsigned parent_count;
    bool known; /* whether the helper knows it */
};

/* Announces to the helper what is about to be made. The helper first removes what dead servers have
 * left in the parents. 0 or -errno */
int cleanup_add(struct cleanup *item);

/* Requests the removal. wait: if this was the last item, waits until all are removed, but for at
 * most a quarter of a second, because an MCP client gives a server half a second to exit. The
 * helper continues by itself after that. */
void cleanup_remove(struct cleanup *item, bool wait);

/* Renames a directory in parent_fd out of the way, and requests its removal. 0 or -errno */
int cleanup_discard(int parent_fd, const char *name);

/* Makes and locks the file that marks directory_fd as a living server's; before anything else is in
 * the directory, because after ten seconds without a holder it can be removed. Returns the
 * descriptor, which holds the lock, or -errno; -ENOENT: the directory is removed already, as this
 * machine was suspended meanwhile. */
int cleanup_lock(int directory_fd, const char *name);

/* The state of one sandbox. The directories above share it; box.c owns it. */

/* The start-up self-test, see report/box_selftest.c. */
struct selftest {
    int fd; /* where the process in the sandbox reports; -1: it has reported, or was not started */
    struct loop_io io;
    struct loop_timer timer;
    uint64_t began_ns;
    bool received;
    struct selftest_record record;
    size_t record_size; /* received bytes; 0: it exited without a report */
};

/* What box.c, the sandbox's owner, must act on: the directories above report it here. */
struct box_handlers {
    void (*broken)(struct box *box, const struct fail *why); /* see box_broken() */
    /* The role's process has sent its first message. pid: in the host's numbering, from the
     * kernel. */
    void (*guest_ready)(struct box *box, pid_t pid);
    void (*selftest_done)(struct box *box); /* the self-test has reported */
    void (*give_up)(struct box *box); /* kills the sandbox without a reason, like box_kill() */
};

/* What runs in a sandbox: the zygote of the sessions (programs/init/spawn.c), or an installer
 * (installer.c). */
struct box_role {
    /* Asks init to start the process, guest.pid. 0 or -errno */
    int (*start)(struct box *box, struct fail *ret_fail);
    void (*exited)(struct box *box, pid_t pid, int status); /* guest.pid, or a watched process */
    /* The watchdog is about to kill pid: all processes together use used_bytes. */
    void (*memory_killed)(struct box *box, const struct wire_reply *reply);
    /* The staging or scratch directory holds too much: init kills the response's pid, or, if that
     * is 0, all processes but itself. */
    void (*disk_killed)(struct box *box, const struct wire_reply *reply);
    /* Init has made the socket pair requested by WIRE_PAIR, or reports why not. NULL: the role
     * requests none. */
    void (*pair_made)(struct box *box, const struct wire_reply *reply, int fds[WIRE_FDS]);
};

/* A process that builds itself a root by a plan, launch/launch.h. */
struct launched {
    pid_t pid; /* 0: none */
    int pidfd;
    bool in_group; /* by CLONE_INTO_CGROUP, or it moves itself: the server need not move it */
    int go_fd;     /* a byte from the server: the ids are mapped; another: it is in the group */
    int error_fd;  /* where it reports errors */
};

/* Fields of one subject stand together: */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct box {
    struct loop *loop;
    const struct box_handlers *handlers;
    const struct box_role *role;
    struct box_installer *installer; /* the role's, or NULL */
    const struct box_spec *spec;
    struct box_report *report;    /* of the sandbox's owner */
    enum box_protection building; /* the protection that a failure without a step belongs to */
    struct selftest selftest;
    box_state_fn on_state;
    void *arg;
    enum box_state state;
    struct python python;
    struct box_protected protected_names; /* which the child has found */
    struct plan plan;
    struct cgroup cgroup;
    struct scope scope;
    struct cleanup cleanup; /* of the cgroup's directories */
    struct launched child;  /* which becomes init */
    struct {                /* of the child */
        int config_fd;      /* init's settings; written when the groups are known */
        struct loop_io io;  /* its pidfd */
        struct loop_io error_io;
    } starting;
    int workspace_fd; /* see box_protected_join() */
    struct init_client init;
    struct init_client monitor; /* fd -1: init has a /proc, so no monitor runs */
    pid_t monitor_pid;
    struct {
        struct init_client client; /* fd -1: there is none */
        unsigned started;
        pid_t pid;
        int watch_fd;  /* its inotify instance, or -1 */
        int greet_fd;  /* its socket for sessions (wire_touch), or -1 */
        bool is_fresh; /* it may not have seen yet what is there, or what a file tool wrote */
        bool watches;  /* reports whatever changes */
        bool holds;    /* calls have left files open */
        bool is_blind; /* there are too many files: it checks none */
    } keeper;
    struct {    /* the role's process */
        int fd; /* control socket */
        struct loop_io io;
        struct buf in;
        pid_t pid;      /* its number in the sandbox */
        pid_t host_pid; /* 0: it is not ready yet */
        unsigned deaths;
        bool is_seen; /* the keeper is notified of each program's calls that change files */
    } guest;
    bool memory_killed; /* the watchdog has killed a process, not a session's first one */
    struct {            /* see box_memory_rank() */
        bool asked;
        bool is_done;
        uint32_t tag; /* of the session that fills the memory; 0: none does */
    } rank;
    char version[32];
    struct {
        struct box_session *list;
        unsigned leaving; /* checkpoints that were killed and have not exited yet */
        uint32_t last_tag;
        int pair[2]; /* for the next session: the server's end, the guest's end; or -1 */
        bool pair_asked;
    } sessions;
    struct {
        struct egress_proxy *proxy; /* that the spec requests, or NULL */
        egress_event_fn on_event;
        bool quiet;     /* the log has no refusals */
        int listen_fd;  /* made before init starts, for the proxy; -1: not made here */
        char path[108]; /* its name, or "" */
    } egress;
    struct {
        struct box_apply *applying; /* changes, see box_changes.c; or NULL */
        int left_journal_fd;        /* of an apply that was killed; or -1 */
        int left_upper_fd;
        int overlay_fd;   /* of fspick(2), where the workspace is an overlay; or -1 */
        int64_t fresh_ns; /* see wire_request.fresh_ns */
    } cow;
};

/* The sandbox is unusable: reports the reason and kills it. */
void box_broken(struct box *box, const struct fail *why);

/* --- requests to init --- */

/* Before init or the monitor is connected. */
void box_init_prepare(struct box *box);
/* Sends a request to init, or to the monitor where only that has a /proc. fn may be NULL. 0 or
 * -errno */
int box_ask(struct box *box, struct wire_request *request, init_client_fn fn, void *arg);
/* The same to the keeper, which responds only where there is an fn. -ENOTCONN: there is none. */
int box_ask_keeper(struct box *box, struct wire_request *request, init_client_fn fn, void *arg);
/* Where the workspace is an overlay: names in it are looked up anew from now on. The kernel keeps
 * what it has found, even when the user has renamed, replaced or made something there since, as
 * editors do that save a file. What code has open stays. */
void box_refresh_workspace(struct box *box);
/* Asks init for a keeper, unless the spec wants none. */
void box_start_keeper(struct box *box);
/* Of all connections, see init_client_forget(). */
void box_forget(struct box *box, const void *arg);
/* Sends a request to the monitor, if there is one. 0 or -errno */
int box_tell_monitor(struct box *box, const struct wire_request *request);
/* Tells it which process is the keeper, so that it does not end it. 0 or -errno */
int box_tell_monitor_keeper(struct box *box);
void box_init_close(struct box *box); /* all connections; requests end with ECONNRESET */

/* --- what requests to the keeper have in common --- */

/* Of what the keeper sends: 100,000 records with long paths. */
enum { KEEPER_REPLY_BYTES = 64 << 20 };

/* Names a path for the next request: a filter, or a call's own. 0 or -errno; -ENAMETOOLONG */
int keeper_name_path(struct box *box, const char *path, size_t size);

/* Appends what the memfd of a response holds: a copy, since the keeper can still write there. 0 or
 * -errno; -EPROTO: it is no memfd, -E2BIG: more than most bytes. */
int keeper_read(int fd, size_t most, struct buf *out);

/* --- ../box.c, for installer/: starts a sandbox with another role --- */

/* content: borrowed until box_open() returns. installer: NULL, or the role's. */
struct box_setup {
    const struct box_role *role;
    struct box_installer *installer;
    struct plan_content *content; /* box_open() sets its interpreter */
};

/* Builds the sandbox and requests the role's process. 0 or -errno */
[[nodiscard]] int box_open(const struct box_spec *spec, const struct box_owner *owner,
                           const struct box_setup *setup, struct box **ret_box,
                           struct fail *ret_fail);
