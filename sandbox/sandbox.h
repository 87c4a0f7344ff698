#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/embed.h"
#include "base/fail.h"
#include "sandbox/box_files.h"
#include "sandbox/egress.h"
#include "sandbox/layer.h"
#include "sandbox/packages/errand.h"
#include "sandbox/plan/view.h"
#include "sandbox/room.h"

/* The only face of this room. A box is one Linux sandbox with the interpreter's zygote in it; a
 * session is one interpreter, a fork of the zygote, that runs the model's code. Everything here is
 * non-blocking unless it says otherwise; callbacks come from the event loop.
 *
 * Nothing that comes out of a session is trusted: frames are bounded and checked in form, their
 * content is the guest's word. */

struct loop;
struct buf;

enum { BOX_PYTHON_PACKAGES = 320 };

/* --- what the user wants --- */

struct box_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint64_t disk_inodes;
    uint32_t pids;
    uint32_t cpu_milli; /* thousandths of a processor; 0: no bound */
};

/* All strings are borrowed and must outlive the box. */
struct box_spec {
    struct box_limits limits;
    enum box_isolation isolation;
    struct box_view view; /* where code finds what is named below */
    const char *no_room;  /* why there is none though the isolation needs one: no box starts then */
    struct box_room *room;   /* where its files lie, or NULL: the boxes have a root of their own */
    uint64_t memory_around;  /* what the container or service that we are in may use; 0: no limit */
    uint32_t require;        /* bits 1 << layer: must be on, else no code runs */
    uint32_t allow_degraded; /* may be off, though no code would run by default */
    const char *workspace;   /* host folder for /work, or NULL: on the box's own tmpfs */
    const char *workspace_elsewhere; /* of the sessions beside this sandbox; not shown in it */
    uint64_t allow_write; /* protected names that code may write to: workspace/protected.h */
    struct box_mount mounts[BOX_MOUNTS];
    unsigned mount_count;
    struct box_aliases aliases; /* other mounts of what code writes to */
    const char *python;  /* --python, or NULL: the active virtual environment, else python3 */
    const char *preload; /* modules, comma-separated, or NULL */
    const struct embedded *guest; /* files for /run/sandpiper, closed by a row without name */
    /* Each stream through a pipe of its own: exact streams without a common order. Else one pipe
     * keeps the order, and what children and C code write to stderr counts as stdout. */
    bool separate_streams;
    const struct egress_policy *egress; /* what can be reached; NULL: no network */
    bool packages;           /* they can be installed: there is a place for them, and it is shown */
    const char *cache;       /* the user's folder for them, or NULL: his cache folder */
    uint64_t packages_bytes; /* what all installed ones may hold, and one that is being installed */
};

void box_spec_init(struct box_spec *spec);

/* What the tmpfs with the workspace and /tmp holds: a part of the memory may be less than asked. */
uint64_t box_spec_disk_bytes(const struct box_spec *spec);

/* --- what holds here, see layer.h --- */

/* Starts a real box with spec, looks at what holds, and ends it again. Blocks for some tens of
 * milliseconds: for doctor. */
void box_probe(const struct box_spec *spec, struct box_grade *grade);

/* Looks at the host, the workspace and the interpreter. grade: of box_probe(). Returns how many facts. */
unsigned box_facts(const struct box_spec *spec, const struct box_grade *grade,
                   struct box_fact facts[BOX_FACTS]);

/* The interpreter, as far as can be seen without running it. */
struct box_python {
    char version[8]; /* "3.11"; empty where it is not known: a script may choose among several */
    char packages[BOX_PYTHON_PACKAGES]; /* "numpy 1.26.4, pandas 2.1.0": well-known ones that are
                                           installed, the best known first */
};

/* Reads some folders: for the first answer to a host. */
void box_python_look(const struct box_spec *spec, struct box_python *ret_python);

/* Prints the plan that a box with spec would follow, a step a line. */
int box_plan_print(const struct box_spec *spec, struct buf *out, struct fail *ret_fail);

/* --- the box --- */

enum box_state {
    BOX_STARTING,
    BOX_READY, /* the interpreter has said so */
    BOX_DEAD,  /* everything of it is gone; only box_free is left to do */
};

struct box;

/* On BOX_READY and on BOX_DEAD, once each. why: set when it died before it was ready, or of
 * itself; NULL after box_kill. */
typedef void (*box_state_fn)(void *arg, enum box_state state, const struct fail *why);

/* Whom a box tells. grade: borrowed as long as the box; filled before on_state says BOX_READY, and
 * before a failure is told. */
struct box_owner {
    box_state_fn on_state;
    void *arg;
    struct box_grade *grade;
    egress_event_fn on_egress; /* what the broker refused; may be NULL */
};

struct box_packages;

/* Starts a box. packages: NULL, or outlives it. 0: on_state will be called. -errno: it could not even
 * begin, ret_fail says why. BOX_READY means that each required layer was proven in this box. */
[[nodiscard]] int box_start(struct loop *loop, const struct box_spec *spec,
                            struct box_packages *packages, const struct box_owner *owner,
                            struct box **ret_box, struct fail *ret_fail);

/* Kills everything in the box at once. Sessions get their on_end, files their answer, then on_state
 * reports BOX_DEAD; all of it before this returns. Takes milliseconds. */
void box_kill(struct box *box);

/* box may be NULL; kills it first if it lives. */
void box_free(struct box *box);

enum box_state box_state(const struct box *box);
const char *box_python_version(const struct box *box); /* "3.11.2"; "" until ready */
const char *box_python_path(const struct box *box);
/* Bytes of the limit that are in use; from matters_bytes on without what the kernel could take back.
 * 0: not known. */
uint64_t box_memory_used(const struct box *box, uint64_t matters_bytes);
/* Whether a process has been killed for memory since the last question or the last session that ended so. */
bool box_memory_killed(struct box *box);

/* --- sessions --- */

enum box_stream { BOX_STDOUT, BOX_STDERR };

enum box_end_kind {
    BOX_END_EXIT,   /* code */
    BOX_END_SIGNAL, /* code: the signal's number */
    BOX_END_OOM,  /* killed for memory: used_bytes of limit_bytes; used_bytes 0: by the limit of the
                     * container or service around the server, limit_bytes 0: by the machine's */
    BOX_END_DISK, /* killed for what it has written: likewise, or used_files of limit_files */
    BOX_END_KILLED,  /* by box_session_kill or box_kill */
    BOX_END_LOST,    /* it closed its control socket or broke the protocol, and was killed */
    BOX_END_REFUSED, /* it could not be kept apart from others by Landlock, and was killed before any
                      * code ran */
};

struct box_end {
    enum box_end_kind kind;
    int code;
    uint64_t used_bytes;
    uint64_t limit_bytes;
    uint64_t used_files; /* 0: it is the bytes that were too many */
    uint64_t limit_files;
};

struct box_field {
    const char *data; /* not NUL-terminated; borrowed */
    size_t size;
};

/* A message of the guest: fields[0] is the verb, then names and values in turn. */
struct box_message {
    const struct box_field *fields;
    size_t count; /* odd */
};

bool box_field_is(const struct box_field *field, const char *text);

/* Looks up the first value of name. Returns whether there is one. */
bool box_message_get(const struct box_message *message, const char *name,
                     struct box_field *ret_value);

struct box_session;

struct box_session_events {
    /* The interpreter waits for messages. */
    void (*on_ready)(void *arg);
    void (*on_message)(void *arg, const struct box_message *message);
    void (*on_output)(void *arg, enum box_stream stream, const char *bytes, size_t size);
    /* After each run the guest forks a copy that sleeps, the checkpoint of its state; cell: the
     * run's number. exists: it is there from now on; else there could be none, or it has ended
     * against our will. One that ends while it is being woken is not told. */
    void (*on_checkpoint)(void *arg, unsigned cell, bool exists);
    /* The process died, or box_session_restore ended it, and a checkpoint has taken over: the
     * session is as it was after the run with this cell number, and waits for messages. What the
     * dead one had started is gone, its output has been delivered. threads: that no copy has. */
    void (*on_restored)(void *arg, const struct box_end *end, unsigned cell, unsigned threads);
    void (*on_slow)(void *arg, const struct box_end *end); /* neither came yet */
    /* Last call: the process and all that it started are gone, its output has been delivered. */
    void (*on_end)(void *arg, const struct box_end *end);
};

/* Forks an interpreter from the zygote of a ready box. events and arg: borrowed until on_end. */
[[nodiscard]] int box_session_open(struct box *box, const char *name,
                                   const struct box_session_events *events, void *arg,
                                   struct box_session **ret_session, struct fail *ret_fail);

/* Sends one message; fields as in box_message. Queues what the guest does not read at once.
 * 0 or -errno; -EPIPE: the process has died, on_restored or on_end follows. */
int box_session_send(struct box_session *session, const struct box_field *fields, size_t count);

/* Delivers what the pipes hold now; to be called when a result has come, so that output written
 * before it is there before it. */
void box_session_drain(struct box_session *session);

/* hold: the pipes are not read until it is false again; who writes more than they hold waits. */
void box_session_hold_output(struct box_session *session, bool hold);

/* KeyboardInterrupt in the guest. */
void box_session_interrupt(struct box_session *session);

/* Asks the interpreter's signal handler, which runs also while native code does, to write down where
 * it is; box_session_traced() reads what is there some milliseconds later: lines of faulthandler,
 * and "interrupted" for each KeyboardInterrupt that Python code has seen. The guest's word, like all
 * else; returns its length, a NUL follows. */
void box_session_trace(struct box_session *session);

/* The same for a thread that is at work, be it the one that runs the cell or another, and in place of
 * what was written before. An interpreter that another program has replaced is not asked. Returns false when the session
 * has died. */
bool box_session_trace_at_work(struct box_session *session);

/* What has been written since the last message was sent. In on_restored and on_end: by the dead one. */
size_t box_session_traced(const struct box_session *session, char *text, size_t size);

/* Kills the interpreter and all that it started. on_restored follows, or on_end. */
void box_session_kill(struct box_session *session);

/* Beside the newest checkpoint only those are there that are kept. Returns whether that of cell is
 * there; one that is neither kept nor the newest is ended. */
bool box_session_keep(struct box_session *session, unsigned cell, bool keep);

/* Ends the interpreter and all that it started, and wakes the checkpoint of this cell. It stays:
 * it is forked anew before it takes over. on_restored follows, with an older cell when it has died
 * on the way, or on_end. 0; -ENOENT: there is no such checkpoint; -EPIPE as box_session_send. */
int box_session_restore(struct box_session *session, unsigned cell);

/* Like box_session_kill, and its checkpoints too. on_end follows. */
void box_session_close(struct box_session *session);
