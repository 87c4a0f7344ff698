#pragma once
#include "base/fail.h"
#include "base/loop.h"
#include "base/word.h"
#include "tools/keep/keep_files.h"
#include "tools/run/fate.h"
#include "tools/servers/tool_channel.h"
#include "tools/session/history.h"
#include "tools/session/session.h"
#include "tools/session/session_life.h"

/* What the files of a session share. */

enum {
    SESSION_WRITTEN_BYTES = 512,            /* of paths that write_file has written */
    SESSION_NAMES_BYTES = 256,              /* of lists of variables */
    SESSION_SENTENCE_BYTES = FAIL_TEXT + 64 /* why a run is refused */
};

/* Where the current run is while memory gets short, see session_states.c. */
struct memory_trace {
    bool waiting;         /* for the interpreter's trace */
    uint64_t asked_bytes; /* in use at the last request for a trace; 0: none yet */
    uint64_t floor_bytes; /* the least in use since */
    uint64_t asked_ns;
    uint64_t place_bytes; /* in use at the request whose result is place; 0: no place is known */
    char place[256];      /* a line of the trace, with its newline; empty: in no cell */
};

/* A kept state while it is checked and loaded, see session_keep.c. */
struct reading {
    int fd;      /* of its file */
    int copy_fd; /* what the interpreter gets */
    struct keep_header header;
    struct keep_reader reader;
    struct loop_timer timer;
};

/* What --keep knows of a session. */
struct kept {
    enum session_back {
        BACK_UNASKED, /* no call has run */
        BACK_WAITING, /* for the lock of the directory */
        BACK_READING,
        BACK_DUE, /* the next step of the session loads it */
        BACK_LOADING,
        BACK_OVER, /* it is back, or there was nothing */
    } back;
    struct reading *reading; /* NULL: none */
    unsigned tries;          /* to load it */
    bool aside;              /* the file becomes the earlier one, when another takes its place */
    bool removed;            /* what is being saved is not wanted any more */
    bool changed;            /* since the last save, */
    uint64_t first_ns;       /* first, */
    uint64_t last_ns;        /* and last */
    uint64_t called_s;       /* the same by the clock of the machine */
    uint64_t saved_ns;
    uint64_t took_ns;
    struct buf line; /* of the next result */
};

struct session {
    struct session *next;
    struct sessions *owner;
    char name[65];
    bool transient;            /* for one run: closed and freed with it */
    bool branches;             /* transient, and a copy of the session of this name */
    enum session_state state;  /* set by session_enter() only */
    bool pumping;              /* session_pump() is running */
    struct box_session *guest; /* NULL in NONE and WAITING */
    struct server_box_waiter waiter;
    struct loop_timer timer; /* of the current state */
    struct run *current;
    bool begun;    /* RUNNING: the interpreter has begun with the current run's code */
    unsigned cell; /* of the last run */
    struct history history;
    uint32_t serial; /* of no other session */
    struct {
        uint32_t at;             /* the state in which this session has left them */
        uint32_t goal;           /* the one that they are to be put back to; 0: none */
        struct buf back;         /* files that were, each with a NUL; "" among them: any may be */
        struct keep_states kept; /* those that the keeper keeps for it */
        bool waiting;            /* for the keeper: they are put back, or checked before a run */
    } files;
    uint64_t state_bytes;      /* of the current state; 0: small */
    struct history_state safe; /* the newest whose checkpoint has been there */
    bool gave_up;              /* the present state's checkpoint made way for the current run */
    unsigned goal;             /* RESTORING, and the FAILOVER that it becomes: the state's cell */
    struct install_op *op;     /* SUPPLYING */
    struct tool_channel calls; /* of tools of other servers */
    struct fate fate;          /* SWEEPING, SAVING: of the current run */
    struct kept kept;
    uint64_t awaits_ns;      /* CHECKPOINTING: since when */
    uint64_t trace_until_ns; /* INTERRUPTED */
    struct memory_trace trace;
    struct lost_threads lost;
    struct {
        struct output between; /* printed while nothing ran */
        char before[512];
        bool tells_dropped; /* before ends with a list of dropped states */
        bool lost_steps;    /* steps of undo made way: memory was short */
        bool no_steps;      /* the last result has said that there are none left */
        unsigned strays;    /* messages that belong to no run */
        unsigned processes; /* that were killed with a cell or with the interpreter */
        struct buf killed;  /* the commands of some of them */
    } next_result;
};

/* What write_file has written since code last ran. */
struct session_written {
    struct buf text; /* the first paths: items as box_states_next() reads them */
    uint32_t count;
};

struct keep_save;

/* --keep, see session_keep.c. */
struct keeping {
    struct keep_config config;
    char python[8]; /* "3.11" */
    int dir_fd;     /* -1: not open yet */
    enum { KEEPING_OFF, KEEPING_NOT_YET, KEEPING_LOCKED } lock;
    uint64_t lock_until_ns;
    struct loop_timer lock_timer;
    struct loop_timer timer; /* of the next save */
    struct keep_save *save;  /* the one that is going on, or NULL */
    bool is_last;            /* the server ends */
};

struct sessions {
    struct loop *loop;
    struct keeping keeping;
    struct session_written written;
    uint32_t last_serial;   /* of a session, and of a state of files */
    bool files_unseen;      /* a result has said what undo does not cover; and */
    bool files_uncovered;   /* that there are too many for undo */
    unsigned files_open;    /* runs that have begun and not ended, as the keeper knows */
    unsigned files_looking; /* ended runs whose files the keeper still checks */
    struct server_box *server_box;
    struct session *list;
    unsigned count;
    struct overflows overflows;
    struct loop_task opened; /* of files for output */
    struct loop_timer memory_timer;
    struct installs *installs;         /* NULL: nothing can be installed */
    struct tool_servers *tool_servers; /* NULL: there are none */
    enum { PREINSTALL_DUE, PREINSTALL_BEGUN, PREINSTALL_OVER } preinstall;
    char preinstall_error[800]; /* why it failed, not reported yet; empty: nothing */
};

/* session.c */
/* The only function that changes the state. Ends the timer and the installation of the state that
 * it leaves. */
void session_enter(struct session *session, enum session_state state);
/* The session that a branch is a copy of. NULL: it is no branch, or there is no such session. */
struct session *session_parent(const struct session *session);
/* arg: a session. The file of a long output takes what comes, or has failed. */
void session_overflow_open(void *arg);
/* Puts what the current run has printed into a file, if it is cancelled. */
void session_keep_output(struct session *session);
/* The facts about the current run, if there is one. end: of the interpreter, or NULL. */
struct fate_facts session_facts(const struct session *session, enum fate_event event,
                                const struct box_end *end);
/* Returns the current run to its caller, through on_done. */
void session_done(struct session *session, const struct fate *fate);
/* The same with the fate that the event alone decides. why: FATE_REFUSED, else NULL. */
void session_conclude(struct session *session, enum fate_event event, const char *why);
/* Ends the interpreter and drops its state. */
void session_close(struct session *session);
/* Starts the time limit of the current run, less what it has already spent. */
void session_arm_deadline(struct session *session);
/* Frees a session without an interpreter and without a run. */
void session_drop(struct session *session);

/* session_interpreter.c: starts the interpreter. */
void session_start(struct session *session);
/* Whether a branch must wait until its session has an interpreter again. */
bool session_branch_waits(const struct session *session);

/* session_steps.c */
/* Carries out the steps of the current run, or else of the next one, until a step has to wait. */
void session_pump(struct session *session);
/* The same for each session whose run waits for what has happened to others. */
void sessions_pump(struct sessions *sessions);
/* session_interpreter.c */
/* The current run has ended, and its calls of tools with it. */
void session_calls_end(struct session *session);
/* Reports calls that a restored state does not take back; see ledger_take_back(). */
void session_calls_stay(struct session *session, enum ledger_scope scope, unsigned cell);

/* session_keep.c, with --keep. */
void sessions_keep_done(struct sessions *sessions);
/* The session's first call has come: finds out whether there is a state to load. */
void session_kept_ask(struct session *session);
/* Whether it is to be loaded, or that is not known yet. */
bool session_kept_is_due(const struct session *session);
/* The step that loads it; its response; and the interpreter's end meanwhile. */
void session_kept_load(struct session *session);
void session_kept_loaded(struct session *session, const struct box_message *message);
void session_kept_failed(struct session *session);
/* A reset before it is loaded: it is not. */
void session_kept_decline(struct session *session);
/* Drops what is left of loading. Idempotent. */
void session_kept_done(struct session *session);
/* No interpreter starts that could load it: the next call asks again. */
void session_kept_later(struct session *session);
/* Adds what came back, if no result has said it. is_last: this one will. */
void session_kept_line(struct session *session, struct run *run, bool is_last);
/* The state is another one, */
void session_kept_change(struct session *session);
/* or that before the first call: nothing of it comes back. */
void session_kept_remove(struct session *session);
/* Lets the copy that is being saved make way, or waits until it has. false: there is none. */
bool sessions_kept_yield(struct sessions *sessions);
/* The step that makes a branch save itself. */
void session_kept_send(struct session *session);

/* session_steps.c: adds the installed packages. layers: holds the text. */
void session_packages_fields(const struct session *session, struct buf *layers,
                             struct box_fields *fields);

/* session_steps.c, with --auto-install */
/* Leaves CHECKING: message lists what the run lacks, maybe nothing. */
void session_packages_supply(struct session *session, const struct box_message *message);
/* Drops the installation when SUPPLYING ends before it. */
void session_packages_forget(struct session *session);

/* session_files.c: whether the keeper does not know yet that the run begins, and how it learns. */
bool session_files_are_unprepared(const struct session *session);
void session_files_prepare(struct session *session);
/* The current run has changed the state: it has made the files what they are. */
void session_files_made(struct session *session);
/* The number that the current run's processes carry: of its cell, or of its files if the keeper
 * learns what it does to them as it happens, which the second says. */
unsigned session_files_mark(const struct session *session);
bool session_files_are_edits(const struct session *session, const struct run *run);
/* Returns a run, which has ended, to its caller, as soon as its changes of files are known. */
void session_files_end(struct session *session, struct run *run);
/* Tells the keeper which states the session can go back to. */
void session_files_keep(struct session *session);
/* Whether files are to be put back before the current run goes on, and the step that does so. */
bool session_files_differ(const struct session *session);
void session_files_switch(struct session *session);

/* To be called when the current run is sent: traces it from now on when memory gets short. */
void session_memory_watch(struct session *session);
/* The interpreter has died: stores in the run where the code was, if that is known. */
void session_memory_place(struct session *session, const struct box_end *end);
/* Memory ran out: drops all states of undo, which would make the next call fail too. */
void session_state_crowded(struct session *session);
/* The current run has lost its first state: if that checkpoint had made way for it, stores why. */
void session_state_gave_up(struct session *session);
/* Stores in the run what the guest reports of memory, and drops old states to make space. */
void session_state_make_space(struct session *session, const struct box_message *message);

/* session_states.c */
/* Makes the sandbox keep the checkpoints that the history uses. */
void session_keep(struct session *session);
/* Adds to what the next result reports of the time before it; no text contains "; ". */
__attribute__((format(printf, 2, 3))) void session_tell(struct session *session, const char *fmt,
                                                        ...);
/* The same for a cancelled run. then: what became of the state; NULL: the code did not begin. */
void session_tell_cancelled(struct session *session, const struct run *run, const char *then);
/* The current run has a result: its variables become part of the state. */
void session_state_made(struct session *session, const struct box_message *message);
/* The current run, a job, ends before it has begun: an undo takes that back, not the call before.
 */
void session_state_untouched(struct session *session);
struct lost_names {
    char gone[SESSION_NAMES_BYTES];  /* the variables that a state lacks */
    char older[SESSION_NAMES_BYTES]; /* those that a later cell has bound */
};
/* The interpreter died; the state is that after cell. by_run: the current run died with it. lost:
 * zeroed. */
void session_state_back(struct session *session, bool by_run, unsigned cell,
                        struct lost_names *lost);
/* No state is left. names: receives the lost variables. */
void session_state_lost(struct session *session, char names[SESSION_NAMES_BYTES]);
/* Carries out the current run's undo or restore. Afterwards that is done, or the run has failed, or
 * the session waits. */
void session_undo(struct session *session);
void session_restore(struct session *session);
/* The undo or restore has put no files back: of a state without variables nothing is left. */
void session_left_nothing(struct session *session);
/* Drops the named state that the current run names, or refuses the run: there is none. */
void session_drop_named(struct session *session);
/* The current run's result, which is complete, names the states that are left after such a drop. */
void session_list_left(struct session *session);
/* The interpreter has the state that the run goes back to: that after cell. */
void session_state_taken(struct session *session, unsigned cell);
/* Gives the current state the name that the current run requests. */
void session_name_state(struct session *session);
/* Wait for the current state's checkpoint: before the current run, and after it to name the state.
 */
void session_await_checkpoint(struct session *session);
void session_save(struct session *session);
/* Of the present state. */
enum box_checkpoint session_checkpoint(const struct session *session);
/* An event of the sandbox. */
void session_on_checkpoint(void *arg, unsigned cell, enum box_checkpoint before);
