#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/sandbox.h"
#include "tools/box/overflow.h"
#include "tools/run/output.h"
#include "tools/run/result.h"

/* What a result cannot know of a restored state. */
#define RUN_OLDER_NOTE "(objects changed in place are not listed)"

/* One run of code in a session: the request, facts and how it ended. All modules that take part add
 * facts, and the session fills in the end and returns the run through on_done; run_python and the
 * command line make results of it. */

enum run_outcome {
    RUN_OK,
    RUN_ERROR,   /* an exception */
    RUN_EXIT,    /* sys.exit, or the process exited with this code */
    RUN_TIMEOUT, /* interrupted or killed, see state */
    RUN_STOPPED, /* the same, because the model has stopped the job */
    RUN_OOM,
    RUN_DISK,    /* killed for what it has written */
    RUN_CRASHED, /* by a signal */
    RUN_LOST,    /* its connection to the server was closed or misused */
    RUN_ENDED,   /* the whole sandbox exited */
    RUN_CANCELLED,
    RUN_REFUSED, /* the code did not begin, see RUN_REFUSAL */
    RUN_OUTCOME_COUNT,
};

enum run_state {
    RUN_STATE_KEPT,
    RUN_STATE_INTERRUPTED,      /* kept, with what was finished before the interrupt */
    RUN_STATE_RESTORED,         /* to before this run */
    RUN_STATE_RESTORED_EARLIER, /* to after restored_cell: the checkpoint since was lost */
    RUN_STATE_DROPPED,          /* a fresh run keeps no state, */
    RUN_STATE_BRANCH_DROPPED,   /* nor does a branch */
    RUN_STATE_PENDING,          /* its processes have not exited yet; the next result reports it */
    RUN_STATE_LOST,             /* variables are lost, files are kept; a new interpreter starts */
    RUN_STATE_ALL_LOST,         /* files are lost too */
};

/* Copied; NULL: none. */
struct run_text {
    char *data;
    size_t size;
};

/* What the result of a run can report, each a text of any length: of a number its digits, of a list
 * (the first ones) its items, each followed by a NUL. */
enum run_fact {
#define FACT(fact, ...) fact,
#include "tools/run/facts.h"
#undef FACT
    RUN_FACT_COUNT,
};

/* A row of the table of facts (facts.h). */
struct run_row {
    /* The key in the record's result and in the structured result; before a point, the object that
     * it is in, or the record's event. NULL: in neither. */
    const char *name;
    const char *json; /* the key in the structured result; NULL: name; "": it has none of its own */
    /* What the status line says, with the fact for {}. NULL: nothing, or not in a place of its own.
     */
    const char *line;
    const char *otherwise; /* what it says in another case, see append_line() */
    /* What the guest says of it. Its words are unchanged: whatever shows them must quote them
     * (base/word.h). Each bound is above what the driver sends (guest/display.py, as_json.py,
     * trace.py, changes.py, images.py). */
    struct run_part {
        const char *name; /* NULL: the server alone finds it out */
        enum {
            FORM_TEXT,   /* cut where it is too long */
            FORM_DIGITS, /* anything else is no value */
            FORM_PATH,   /* one line, whole or not at all */
            FORM_NOTE,   /* a sentence, put in quotes */
            FORM_JSON,   /* whole or not at all; shown to no model: takes nothing from the others */
        } form;
        unsigned characters; /* at most; of FORM_JSON: bytes */
        unsigned most;       /* how often it may come, equally often for lists that belong together;
                                0: once, and it does not replace what the server knows */
    } part;
    enum run_kind { RUN_TEXT, RUN_NUMBER, RUN_LIST } kind;
    bool goes_on; /* it belongs to the one before, and is said only with that */
};

extern const struct run_row run_rows[RUN_FACT_COUNT];

/* A program as `python FILE ARG...` runs it. */
struct run_program {
    const char *argv; /* sys.argv, a NUL after each */
    size_t argv_size;
    const char *file;      /* its path in the sandbox, where it need not exist; empty: a cell */
    const char *directory; /* the current one, in the sandbox; empty: the workspace */
};

struct run_request {
    json_t *held_code;
    json_t *held_stdin;
    const char *code; /* of held_code, of any bytes */
    size_t code_size;
    const char *stdin_text; /* of held_stdin; NULL: none */
    size_t stdin_size;
    uint64_t timeout_ms;
    bool reset;
    bool fresh;       /* in an interpreter of its own that is discarded, */
    bool branch;      /* or in a copy of the session's that is discarded */
    bool shown;       /* the client shows a view: RUN_SHOWN is wanted */
    bool undo;        /* before the code: restore the state before the last call, */
    char restore[65]; /* or the state of this name; empty: neither */
    char save[65];    /* the name for the state after the code; empty: none */
    char drop[65];    /* before the code: drop the state of this name; empty: none */
    json_t *trace;    /* of its call, which is passed on; NULL: none */
    const struct run_program *program; /* for the command line; NULL: a cell. Borrowed */
};

struct run_end {
    enum run_outcome outcome;
    enum run_state state;
    struct box_end process; /* the interpreter's, if it has exited; else only its code is set */
    uint64_t duration_ns;
    unsigned restored_cell;
    bool interrupted; /* RUN_TIMEOUT: the code stopped at the interrupt */
    bool killed;      /* the interrupt did not end the code, and killing the interpreter did */
    bool late;        /* RUN_OK, RUN_EXIT: the code caught the interrupt, */
    bool waited;      /* or waited for processes, which were ended */
    bool stuck;       /* killed: no Python code has seen the interrupt */
};

/* What is carried out of the request is taken out of it: reset, undo, restore, drop. */
struct run {
    struct run_request request;
    void (*on_done)(void *arg, struct run *run); /* takes the run: run_free */
    /* For the command line: gets output as it arrives, and none is kept. May hold further output
     * with sessions_hold_output(). */
    void (*on_output)(void *arg, unsigned stream, const char *bytes, size_t size);
    void *arg;
    bool cancelled;
    bool supplied;  /* --auto-install has checked the imports */
    bool gives_up;  /* an undo that waits no longer for the state to be saved */
    bool only_news; /* the result has no output but the news */
    bool stop;      /* by stop, or a call that gives up what the job does: undo, restore, reset: */
    const char *given_up_by; /* which of them; NULL: of none */
    unsigned keep_ms;        /* it saves the session for --keep, in so long; 0: it runs code */
    unsigned job;            /* the number of the job that it has become; 0: none */
    uint64_t job_limit_ms;   /* the longest time limit of a job, for advice; 0: none is needed */
    char doing[240];         /* what the run waits for; empty: nothing */
    unsigned cell;
    unsigned starts;     /* of interpreters for it */
    unsigned sent;       /* how many times, to an interpreter */
    uint64_t started_ns; /* later, by the time that the user was asked meanwhile: */
    struct {
        uint64_t ns;       /* by so much, at most LIMIT_ELICITATION_MS */
        uint64_t since_ns; /* the user is asked now; 0: is not */
        unsigned count;    /* what the user has responded to, */
        unsigned refused;  /* and has refused */
    } asked;
    uint64_t spent_ns; /* of its time limit, before started_ns: for the check of its imports */
    uint32_t files;    /* the state of the files after it, see sandbox/box.h; 0: not sent */
    bool files_undo;   /* there is a state that undo takes the files back to */
    struct run_text facts[RUN_FACT_COUNT];
    bool was_reset;               /* the interpreter was fresh because this run requested it */
    unsigned back_cell;           /* RUN_BACK: to after this cell; 0: to the fresh interpreter */
    unsigned pending;             /* changes that are not applied to the user's directory, or: */
#define RUN_PENDING_MANY UINT_MAX /* too many to count */
    struct run_end end;
    struct output output;
    struct output errors;      /* stderr, where the streams are separate */
    struct output news;        /* of a job: both, whole lines, since the last result about it */
    struct buf line;           /* of a job: what was printed after them */
    struct overflow *overflow; /* holds all output once that is too long to show; NULL: none */
    struct recording recording;
};

/* code, stdin_text: strings, of which the run takes a reference, because they may be long.
 * stdin_text: NULL: none. Returns NULL when out of memory. */
struct run *run_new_from(json_t *code, json_t *stdin_text);
/* The same, with copies of the bytes. */
struct run *run_new(const char *code, size_t code_size, const char *stdin_text, size_t stdin_size);
void run_free(struct run *run);

/* Copies bytes into a fact, or as one more item into a list; a NUL in an item becomes "?". */
void run_add(struct run *run, enum run_fact fact, const char *bytes, size_t size);
__attribute__((format(printf, 3, 4))) void run_addf(struct run *run, enum run_fact fact,
                                                    const char *fmt, ...);
/* Nothing if it is 0. */
void run_add_number(struct run *run, enum run_fact fact, unsigned number);

/* The text, or "". */
const char *run_fact(const struct run *run, enum run_fact fact);

/* The item of a list that follows at (NULL: the first), with a NUL after it; NULL: none. */
const char *run_next_item(const struct run *run, enum run_fact list, const char *at);

/* A changed file or variable: what the lists have beside each other. Zeroed: before the first. */
struct run_change {
    const char *name; /* with its sign */
    const char *size; /* of a file; NULL: not known */
    const char *kind; /* NULL: not known */
};

/* list: RUN_FILES or RUN_VARS. */
bool run_next_change(const struct run *run, enum run_fact list, struct run_change *change);

/* Appends a changed variable as it is shown: "+df DataFrame 1000x8". 0 or -ENOMEM. */
int run_append_var(struct buf *text, const struct run_change *var);

/* What the record calls them. */
const char *run_outcome_key(enum run_outcome outcome);
const char *run_state_key(enum run_state state);
/* What results say of the state. */
const char *run_state_name(enum run_state state);
/* The name of the state that the last undo or restore of a session has left. */
#define RUN_LEFT "before-undo"

/* Adds output to the news of a job; a line that has not ended waits for its end. */
void run_add_news(struct run *run, const char *bytes, size_t size);
/* Adds that line to the news as it is. */
void run_end_line(struct run *run);

/* Appends how the run ended, in a few words: "ok", "error: ValueError". 0 or -ENOMEM. */
int run_append_outcome(const struct run *run, struct buf *text);

/* Whether the result has isError. */
bool run_is_error(const struct run *run);

/* Appends the whole result: output, value or traceback, hint, and the status line. 0 or -ENOMEM. */
int run_compose(const struct run *run, struct buf *text);
/* Appends only the status line, such as "[ok 3 ms]". */
int run_compose_status(const struct run *run, struct buf *text);

/* Puts into a run what the guest and the sandbox report of it. The guest's text is copied as text;
 * what the server knows itself is never taken from the guest. */

/* Takes the parts of a "result" frame, which hostile code may have made. Bounds each part and all
 * of them together. Cuts what does not fit and says by how much; omits or quotes what is not a
 * number, a place or a single sentence. */
void outcome_take_parts(struct run *run, const struct box_message *message);

/* Begins an overflow file with all output so far, which has not been cut yet. Returns false if
 * there is none. */
bool outcome_begin_overflow(struct run *run, struct overflows *overflows,
                            void (*on_open)(void *arg), void *arg);

/* Takes a piece of the output. Returns true when it has just begun an overflow file: then the guest
 * should wait until on_open is called. */
bool outcome_take_output(struct run *run, struct overflows *overflows, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg);

/* exit_code of a "result"; 1 if it is invalid. */
int outcome_exit_code(const struct box_message *message);

/* Whether the signal handler has written all of its lines. */
bool outcome_trace_is_whole(const char *text);

/* Takes the place where the code hangs from the trace; see box_session_traced(). */
void outcome_take_trace(struct run *run, const char *text);

/* The same for a process killed while writing the trace: only whole lines count. */
void outcome_take_place(struct run *run, const char *text);

/* "SIGSEGV", "out of memory", …: for an interpreter that died between runs. Returns out. */
const char *outcome_end_text(const struct box_end *end, char out[64]);
