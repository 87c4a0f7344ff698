#pragma once
#include "base/buf.h"
#include "base/loop.h"
#include "sandbox/confine/rlimits.h"
#include "sandbox/grade/proof.h"
#include "sandbox/limits/cgroup.h"
#include "sandbox/limits/scope.h"
#include "sandbox/plan/plan.h"
#include "sandbox/python/python.h"
#include "sandbox/sandbox.h"
#include "sandbox/wire/wire.h"

/* Inside of the room: what box.c, link.c and session.c share. */

/* Answer of pid 1, or none at the box's end: error is then ECONNRESET. fds: -1 where there is none; what
 * is not taken (take_fd) is closed. */
typedef void (*link_fn)(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

struct link_request {
    struct link_request *next;
    uint32_t id;
    link_fn fn;
    void *arg;
};

struct link_packet {
    struct link_packet *next;
    size_t size;
    char bytes[];
};

/* The conversation with pid 1, or with its lookout. */
struct link {
    struct box *box;
    int fd;
    struct loop_io io;
    uint32_t last_id;
    struct link_request *requests;
    struct link_packet *out; /* what its socket has not taken yet */
    struct link_packet **out_end;
};

/* The start-up proof, see prove.c. */
struct prove {
    int fd; /* where the inside witness reports; -1: it has, or was not started */
    struct loop_io io;
    struct loop_timer timer;
    uint64_t began_ns;
    bool heard;
    struct proof_record record;
    size_t record_size; /* of what came; 0: it ended without a word */
};

/* What runs in a box: the sessions' zygote (zygote.c), or an errand's program (errand.c). */
struct box_role {
    /* Asks pid 1 for the process, guest_pid. 0 or -errno */
    int (*start)(struct box *box, struct fail *ret_fail);
    void (*exited)(struct box *box, pid_t pid, int status); /* guest_pid, or one that is watched */
    /* The watchdog is about to kill pid: all together used used_bytes. */
    void (*memory_killed)(struct box *box, pid_t pid, uint64_t used_bytes);
    /* Its stage or room held too much: reply's pid is killed, or, 0, all that ran. */
    void (*disk_killed)(struct box *box, const struct wire_reply *reply);
};

struct box {
    struct loop *loop;
    const struct box_role *role;
    struct box_errand *errand; /* the role's, or NULL */
    const struct box_spec *spec;
    struct box_grade *grade; /* the owner's */
    enum box_layer building; /* whose layer a failure without a step is */
    struct prove prove;
    pid_t interpreter; /* guest_pid as the host numbers it; 0: it has not said that it is ready */
    box_state_fn on_state;
    void *arg;
    enum box_state state;
    struct python python;
    struct box_protected protected_names; /* that the child has found */
    struct plan plan;
    struct cgroup cgroup;
    struct scope scope;
    int go_fd;        /* a byte: the ids are mapped; another: the group is joined */
    int workspace_fd; /* box_protected_join() */
    int config_fd;    /* for pid 1; written when the groups are known */
    pid_t pid;
    bool born_in_group; /* by CLONE_INTO_CGROUP: it need not be moved */
    int pidfd;
    struct loop_io pidfd_io;
    int error_fd; /* the child's report */
    struct loop_io error_io;
    struct link link;
    struct link lookout; /* fd -1: pid 1 has a /proc and needs none */
    pid_t lookout_pid;
    pid_t reaper_pid;
    int reaper_fd; /* its end means: the server is gone */
    int guest_fd;  /* control socket of the role's process */
    struct loop_io guest_io;
    struct buf guest_in;
    pid_t guest_pid; /* of that process, in the box */
    unsigned zygote_deaths;
    bool memory_killed; /* a process that is no session's first, since it was asked */
    char version[32];
    struct box_session *sessions;
    uint32_t last_tag;
    int pair[WIRE_FDS]; /* for the next session: the server's end, the guest's; or -1 */
    bool pair_asked;
    struct egress *egress; /* the way out that the spec grants, or NULL */
    egress_event_fn on_egress;
    int egress_listen_fd; /* made before pid 1, for the broker; -1: pid 1 makes it, or none is wanted */
    char egress_path[108]; /* its name, or "" */
};

/* box.c: builds the box and asks for the role's process. content: borrowed until this returns.
 * errand: NULL, or the role's. */
struct box_setup {
    const struct box_role *role;
    struct box_errand *errand;
    const struct plan_content *content;
};
[[nodiscard]] int box_open(struct loop *loop, const struct box_spec *spec,
                           const struct box_owner *owner, const struct box_setup *setup,
                           struct box **ret_box, struct fail *ret_fail);

/* box.c: the role's process has said its first word, and has this pid outside, in the kernel's word. */
void box_guest_ready(struct box *box, pid_t pid);

/* zygote.c: what the sessions' box shows and runs. packages: NULL, or opened ones. */
void zygote_content(const struct box_spec *spec, const struct box_packages *packages,
                    struct plan_content *content);

/* prove.c. Starts the inside witness; box_settle() is called when it was heard. 0 or -errno */
int prove_start(struct box *box, struct fail *ret_fail);
void prove_stop(struct box *box); /* idempotent */
/* The interpreter is ready: from here on the witness is waited for, not for ever. */
void prove_wait(struct box *box);
/* What is wrong, the witness being heard: with the box, its limits, and the interpreter that has this
 * pid outside. 0, or -ESRCH when that one has just ended. */
int prove_judge(const struct box *box, pid_t pid, struct proof_verdict *verdict);

/* box_grade.c: fill box->grade; ret_fail (NULL: not wanted) gets the sentence with the remedy. */
void box_grade_of_failure(struct box *box, const struct fail *why, struct fail *ret_fail);
void box_grade_of_verdict(struct box *box, const struct proof_verdict *verdict);

/* Whether this is the end of an interpreter that could not be confined or executed; then ret_fail says
 * which step, and box->building whose layer it is. */
bool box_confinement_failed(struct box *box, int status, struct fail *ret_fail);

/* box.c: makes the plan fit what this kernel has. */
void box_adapt_plan(struct plan *plan);

/* box.c, for prove.c: looks whether the box can be used. */
void box_settle(struct box *box);

/* link.c */
int link_start(struct link *link, struct box *box, int fd); /* fd: taken */
void link_end(struct box *box);                             /* both; answers all with ECONNRESET */
/* Sends one request to whom it concerns. fn may be NULL. 0 or -errno. */
int link_send(struct box *box, struct wire_request *request, link_fn fn, void *arg);
/* Sends one to the lookout, if there is one. 0 or -errno. */
int link_tell_lookout(struct box *box, const struct wire_request *request);
/* session_pair_made() gets the answer. 0 or -errno. */
int link_ask_pair(struct box *box);

/* launch.c: the one id that a child in a new user namespace has, by its plan. 0 or -errno */
int launch_map_ids(pid_t pid, const struct plan *plan, struct fail *ret_fail);

/* box_egress.c: asks pid 1 for the listening socket and starts the broker with it, if the spec wants
 * one. To be called before anything of the guest is asked for. 0 or -errno */
int box_egress_start(struct box *box, struct fail *ret_fail);
/* Before pid 1 is told its settings: where the socket is not pid 1's to make. 0 or -errno */
int box_egress_listen(struct box *box, struct fail *ret_fail);
void box_egress_end(struct box *box); /* idempotent */

/* guardian.c, for a box without a pid namespace: before it is launched, and at its end: returns whether
 * nobody of it is left. */
void guardian_prepare(void);
bool guardian_reap(struct box *box);

/* launch.c: clones the child and lets it build its root. 0 or -errno, with what was begun in box. */
int launch_child(struct box *box, struct fail *ret_fail);
/* The groups are known: pid 1 hears which limits it has to see to itself, the child joins and goes on. */
int launch_confine(struct box *box, struct fail *ret_fail);

/* config.c: the sizes of the guest's resource limits. */
struct rlimit_sizes config_sizes(const struct box *box);
/* config.c: all that pid 1 has to know, into fd. 0 or -errno */
int config_write(const struct box *box, int fd, struct fail *ret_fail);

/* box.c: the box is of no more use; tells why and kills it. */
void box_broken(struct box *box, const struct fail *why);

/* session.c */
bool session_process_exited(struct box *box, pid_t pid, int status);
void session_memory_killed(struct box *box, pid_t pid, uint64_t used_bytes);
void session_disk_killed(struct box *box, const struct wire_reply *reply);
void session_zygote_died(struct box *box);
void session_end_all(struct box *box);

/* session_open.c */
/* Sees to it that a socket pair for the next session is there soon. */
void session_want_pair(struct box *box);
/* pid 1 has made one, or says why not; takes what it uses of fds. */
void session_pair_made(struct box *box, const struct wire_reply *reply, int fds[WIRE_FDS]);
/* Begins those that waited for a socket pair or for a zygote, as far as both are there. */
void session_begin_waiting(struct box *box);

/* program.c: pid 1's and the reaper's program. Returns a descriptor that is the room's, or -errno */
int program_fd(struct fail *ret_fail);
/* Starts the reaper for the box's cgroup. Without one the box works all the same. */
void reaper_start(struct box *box);
void reaper_stop(struct box *box);
/* Starts the lookout of a box whose pid 1 has no /proc, or tells it of another interpreter. 0 or -errno */
int lookout_start(struct box *box, struct fail *ret_fail);
void lookout_stop(struct box *box); /* idempotent */
