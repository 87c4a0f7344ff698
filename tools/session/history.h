#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "tools/run/run.h"
#include "tools/run/variables.h"

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
    uint32_t files;                /* the state of the files, see box_files.h; 0: none yet */
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
