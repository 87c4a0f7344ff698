#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/word.h"
#include "tools/run/run.h"

/* The variables of an interpreter as the guest has reported them, to say what is lost with it.
 * Bounded: of many only the first are known by name, and none that is no identifier. */

enum { NAMES_BYTES = 512 };

struct names {
    char text[NAMES_BYTES];          /* "df model cfg", a space between them */
    unsigned cells[NAMES_BYTES / 2]; /* which cell has bound each of them last */
    unsigned more;                   /* not in text */
};

/* Applies one change that cell has made: "+df", "~x", "-y". */
void names_change(struct names *names, const char *change, size_t size, unsigned cell);

/* What of from is not in rest (NULL: nothing is): "df, model, cfg and 14 more". Empty: nothing.
 * Returns out. */
const char *names_lost(const struct names *from, const struct names *rest, char *out, size_t size);

/* The same for what both have, and a later cell has bound in from: "x, total". What a cell changed
 * inside an object is unknown. */
const char *names_older(const struct names *from, const struct names *rest, char *out, size_t size);

/* The states that a session can restore: those before its last calls, and the named ones. A state
 * is identified by the number of the cell that made it; 0 is the fresh interpreter. Pure data:
 * whoever changes it also makes the sandbox keep the checkpoints (session_states.c). */

enum {
    HISTORY_STEPS = 3, /* of undo; each holds the memory that later calls have replaced */
    HISTORY_NAMED = 8,
    HISTORY_NAME_BYTES = 65,
    HISTORY_STATES = HISTORY_STEPS + HISTORY_NAMED + 1, /* without the current one */
};

struct history_state {
    unsigned cell;
    unsigned by; /* the cell whose changes it has; 0: it was restored, or nothing has run */
    char name[HISTORY_NAME_BYTES]; /* of a named state, else empty */
    struct names names;            /* the variables that were there */
    uint32_t files;                /* the state of the files, see sandbox/box.h; 0: none yet */
    unsigned calls;                /* newest of the ledger of calls */
};

struct history {
    struct history_state now;
    struct history_state before[HISTORY_STEPS]; /* the newest last */
    unsigned steps;
    bool cut;                                  /* there were calls before before[0] */
    struct history_state named[HISTORY_NAMED]; /* the oldest first */
    unsigned named_count;
    struct history_state
        left; /* RUN_LEFT; no name: there is none; cell 0: its files alone are kept */
};

/* Adds the current state to those that undo restores. */
void history_push(struct history *history);

/* Makes the state before the last call the current one. Returns false if there is none. */
bool history_pop(struct history *history);

/* The session has gone back from this state. */
void history_leave(struct history *history, const struct history_state *state);

/* One of the states except the current one, by a number from 0 on; NULL: there are no more. */
const struct history_state *history_at(const struct history *history, unsigned index);

/* Gives the current state a name. dropped: the name that was dropped for it, or empty. */
void history_name(struct history *history, const char *name, char dropped[HISTORY_NAME_BYTES]);

/* NULL: there is none of that name. */
const struct history_state *history_find(const struct history *history, const char *name);

/* The state that this cell made, or NULL. */
const struct history_state *history_of_cell(const struct history *history, unsigned cell);

/* Removes the state of a lost checkpoint, and with it the older steps of undo. Returns the name
 * that a call has given it, copied to lost, or empty. */
const char *history_forget(struct history *history, unsigned cell, char lost[HISTORY_NAME_BYTES]);

/* Drops RUN_LEFT, or else the oldest step of undo. false: there is none. */
bool history_shorten(struct history *history);

/* The same for want of memory. false: there is none, or only steps back to the present state, after
 * crashes: they hold no memory, and files go back by them. */
bool history_make_way(struct history *history);

/* Drops the state of this name. false: there is none. */
bool history_drop(struct history *history, const char *name);

/* Drops the oldest named state. false: there is none. name: receives its name. */
bool history_drop_oldest(struct history *history, char name[HISTORY_NAME_BYTES]);

/* Which older checkpoints stay: the server's part of the policy that sandbox/checkpoint_policy.h
 * describes. Pure. */

struct checkpoint_memory {
    uint64_t limit_bytes;
    uint64_t used_bytes;  /* in the sandbox; 0: nothing counts it, or little is in use */
    uint64_t state_bytes; /* of the interpreter; 0: less than the guest reports */
    bool unaffordable;    /* the guest forks no checkpoint of it */
};

/* How many of the steps of undo, the oldest first, make space. */
unsigned checkpoint_steps_to_drop(const struct checkpoint_memory *memory, unsigned steps);

/* How many steps of undo this limit of processes allows. */
unsigned checkpoint_steps_most(uint32_t pids);

/* Whether the newest checkpoint of a running interpreter makes way. held_bytes: of checkpoints
 * alone, the older ones being gone. */
bool checkpoint_makes_way(const struct checkpoint_memory *memory, uint64_t held_bytes);

/* Whether older states make way for a running interpreter, one after the other. */
bool checkpoint_older_make_way(const struct checkpoint_memory *memory, uint64_t held_bytes);

/* Whether so much is in use that states may have to make way. */
bool checkpoint_memory_is_full(const struct checkpoint_memory *memory);

/* Whether the status line warns. */
bool checkpoint_memory_is_short(const struct checkpoint_memory *memory);

/* Threads that a checkpoint or a branch does not have, and that nothing starts again:
 * guest/threads.py. */

struct lost_threads {
    char native[WORD_BYTES + 1]; /* their libraries, "polars 4, zmq 2 (context)"; maybe quoted */
    unsigned python;             /* how many of Python's */
    unsigned news;               /* how many of Python's no result has counted, pools' included */
    bool is_news;                /* no result has named the libraries */
};

/* What the interpreter lacks now, as its message says. is_back: it has just replaced another one,
 * or is a copy. */
void lost_threads_take(struct lost_threads *lost, const struct box_message *message, bool is_back);
/* Adds to the run, which has ended: what no result has said, and what it may have waited for until
 * its time limit. */
void lost_threads_report(struct lost_threads *lost, struct run *run);
