#pragma once
#include "base/loop.h"
#include "tools/history.h"
#include "tools/session.h"

/* Inside of the sessions: what session.c (their life), session_messages.c and session_states.c (the states that they can
 * go back to) share. */

enum session_state {
    SESSION_NONE,
    SESSION_WAITING,
    SESSION_OPENING,
    SESSION_SETTLING,  /* the current run waits for the checkpoint of the one before it */
    SESSION_RESTORING, /* an earlier state takes over, for the current run */
    SESSION_IDLE,
    SESSION_CHECKING,  /* the guest looks at what the current run imports; its code has not begun */
    SESSION_SUPPLYING, /* what the current run imports is being installed */
    SESSION_RUNNING,
    SESSION_INTERRUPTED,
    SESSION_SAVING, /* the result is there, the checkpoint that is to have a name not yet */
    SESSION_KILLED,
};

enum session_checkpoint { CHECKPOINT_NONE, CHECKPOINT_PENDING, CHECKPOINT_THERE };

/* What is known of where the present run is while memory gets scarce, see session_memory.c. */
struct memory_trace {
    bool waiting;         /* for the answer */
    uint64_t asked_bytes; /* in use when it was last asked; 0: not yet */
    uint64_t floor_bytes; /* the least since */
    uint64_t asked_ns;
    uint64_t place_bytes; /* in use when it was asked what place answers; 0: nothing is known */
    char place[256];      /* a line of the trace, with its newline; empty: in no cell */
};

struct session {
    struct session *next;
    struct sessions *owner;
    char name[65];
    enum session_state state;
    struct box_session *guest; /* NULL in NONE and WAITING */
    struct workspace_waiter waiter;
    struct run *current;
    struct run *queue;
    struct run **queue_end;
    unsigned queued;
    unsigned cell; /* of the last run */
    struct history history;
    unsigned
        kept[HISTORY_STEPS + HISTORY_NAMED + 1]; /* cells whose checkpoints the sandbox keeps */
    unsigned kept_count;
    struct history_state safe;          /* the newest whose checkpoint has been there */
    enum session_checkpoint checkpoint; /* of the present state */
    bool unprotected;                   /* there can be none, and the answer has said so */
    bool has_state;                     /* some run was answered by the present interpreter */
    bool transient;                     /* for one run: closed and freed with it */
    bool resetting;                     /* killed because current asked for a fresh one */
    bool unsent;                        /* the interpreter died before current reached it */
    bool checking;                      /* CHECKING, or INTERRUPTED out of it */
    unsigned strays;                    /* messages that belong to no run, not told yet */
    bool undoing;                       /* RESTORING by undo, else by name: */
    char going_to[HISTORY_NAME_BYTES];
    unsigned goal;         /* RESTORING: the cell whose state is wanted */
    unsigned threads;      /* that no checkpoint brought back, not told yet */
    struct output between; /* printed while nothing ran */
    char before[256];
    struct loop_timer timer;
    uint64_t trace_until_ns;
    struct memory_trace trace;
    struct install_job *job; /* SUPPLYING */
};

struct sessions {
    struct loop *loop;
    struct workspace *workspace;
    struct session *list;
    unsigned count;
    struct spills spills;
    struct loop_timer memory_timer;
    struct installs *installs;    /* NULL: nothing can be installed */
    bool preinstalling;           /* --preinstall has begun, */
    bool preinstalled;            /* and ended */
    char preinstall_trouble[480]; /* why it failed, not told yet; empty: nothing */
};

/* session.c */
/* Takes the next run where nothing stands in its way. */
void session_pump(struct session *session);
void session_done(struct session *session, enum run_outcome outcome, enum run_state state);
/* The current run was cancelled before its code began. */
void session_abandon(struct session *session);
/* Whether it died by our hand: already by the interrupt, where another program took its place. */
bool session_was_stopped(const struct session *session, const struct box_end *end);
/* Kills the interpreter: a timer's function. */
void session_kill(void *arg);
/* Sends the current run to the interpreter, which waits for it. */
void session_send(struct session *session);
/* The current run's time begins; what it has already spent counts. */
void session_arm_deadline(struct session *session);
/* The interpreter has just died: the current run waits for the one that comes. */
void session_wait_for_heir(struct session *session);

/* session_messages.c */
void session_on_message(void *arg, const struct box_message *message); /* an event of the sandbox */

/* session_packages.c */
/* Fields of a run: the installed packages. layers: holds the text. Returns how many, at most 2. */
size_t session_packages_fields(const struct session *session, struct buf *layers,
                               struct box_field *fields);
/* Whether the current run has to wait for --preinstall, which session_pump() is called after. */
bool session_packages_wait(struct session *session);
/* The current run has been sent: it is told what became of --preinstall, if nobody was. */
void session_packages_sent(struct session *session);
/* Asks the guest what the current run imports and lacks, once. Returns whether the run waits for that. */
bool session_packages_check(struct session *session);
/* CHECKING has ended: the guest has said what it lacks, maybe nothing. */
void session_packages_supply(struct session *session, const struct box_message *message);
/* Nobody waits for them any more. */
void session_packages_forget(struct session *session);

/* session_memory.c */
/* The current run has been sent: from now on it is known where it is when memory gets scarce. */
void session_memory_watch(struct session *session);
/* The interpreter has ended: where it was, if that was for want of memory, goes into the run. */
void session_memory_place(struct session *session, const struct box_end *end);

/* session_states.c */
/* What the next answer shall tell of the time before it. */
__attribute__((format(printf, 2, 3))) void session_tell(struct session *session, const char *fmt,
                                                        ...);
/* The same of a cancelled run, whose own answer goes nowhere. then: what became of the state, NULL: the
 * code did not begin. */
void session_tell_cancelled(struct session *session, const struct run *run, const char *then);
/* The current run has given its result: its variables are part of the state. */
void session_state_made(struct session *session, const struct box_message *message);
/* The interpreter died; the state is that after cell. run: what it took along, or NULL. */
void session_state_back(struct session *session, struct run *run, unsigned cell);
/* No state is left. names: set to the variables that are gone. */
void session_state_lost(struct session *session, char *names, size_t size);
/* Carries out undo, restore, and what needs no interpreter. Returns whether the current run is to be
 * sent; else it is done, or the session is on its way back. */
bool session_state_wanted(struct session *session);
/* RESTORING has ended: the state is that after cell. */
void session_state_taken(struct session *session, unsigned cell);
/* Ends the current run, whose result is there, when its checkpoint has its name. */
void session_state_save(struct session *session);
void session_on_checkpoint(void *arg, unsigned cell, bool exists); /* an event of the sandbox */
void session_on_slow(void *arg, const struct box_end *end);        /* another */
/* Memory ran out: no step of undo is worth another call. */
void session_state_crowded(struct session *session);
/* What the result says of memory goes into the answer; old states make room. */
void session_state_make_room(struct session *session, const struct box_message *message);
