#pragma once
#include "sandbox/sandbox.h"
#include "tools/run/run.h"

/* What becomes of a session's current run when something happens to it or to its interpreter:
 * decided here and nowhere else. Pure: facts in, a decision out. */

enum fate_event {
    FATE_RESULT,         /* the guest has sent the run's result */
    FATE_CHECK_ENDED,    /* the interrupted check of the imports has ended; no code has begun */
    FATE_NOTHING_TO_RUN, /* the call only restored or named a state, and that is done */
    FATE_CANCELLED,      /* cancelled before the code began */
    FATE_REFUSED,        /* the code cannot begin; why has the reason */
    FATE_RESTORED,       /* the interpreter has exited, and a checkpoint has replaced it */
    FATE_ENDED,          /* the interpreter has exited, and nothing has replaced it */
    FATE_SLOW,           /* the interpreter was killed and has not exited yet */
};

struct fate_facts {
    enum fate_event event;
    bool has_run;     /* there is a current run; the fields below are about it */
    bool fresh;       /* its interpreter is discarded after it */
    bool branch;      /* and was a copy of a session's */
    bool cancelled;   /* by the client */
    bool stopped;     /* as a job, by the model */
    bool began;       /* its code was sent to the interpreter */
    bool unread;      /* the interpreter exited, and its code has not begun: once */
    bool interrupted; /* the interpreter was interrupted because of it, and not killed since */
    bool killed;      /* the interpreter was killed because of it */

    struct box_field status;   /* RESULT: "ok", "exit", "interrupted", or else an error */
    const char *why;           /* REFUSED: the sentence */
    const struct box_end *end; /* RESTORED, ENDED, SLOW: of the interpreter */
    bool exact;                /* RESTORED: nothing before this run is lost */
    bool closing;              /* ENDED: the interpreter was closed, so that a fresh one follows */
    bool had_state;            /* ENDED: earlier runs had left variables */
    bool sandbox_ended;        /* ENDED: the whole sandbox has ended, */
    bool files_stay;           /* but the files are the user's own */
};

enum fate_report {
    REPORT_NOTHING,
    REPORT_RESTORED, /* the interpreter ended between the calls, and an earlier state is back */
    REPORT_VARIABLES_LOST, /* the interpreter ended between the calls, and no state is left */
};

struct fate {
    bool done; /* the run has its result; else, if there is one, it waits for an interpreter */
    enum run_outcome outcome;
    enum run_state state;
    bool began;              /* as in the facts */
    bool interrupted;        /* the code stopped at the interrupt */
    bool late;               /* the same, and the code ended by itself all the same */
    bool killed;             /* as in the facts */
    const char *text;        /* RUN_REFUSED: the sentence, static or that of the facts */
    enum fate_report report; /* for the status line of the session's next result */
};

struct fate run_fate(const struct fate_facts *facts);

/* Stores the fate of a finished run in the run. */
void run_take_fate(struct run *run, const struct fate *fate);
