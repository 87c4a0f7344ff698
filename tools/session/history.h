#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "tools/names.h"

/* The states that a session can go back to: those before its last calls, and those that were given
 * a name. A state is known by the number of the cell that made it; 0 is the fresh interpreter. Pure
 * data: whoever changes it tells the sandbox which checkpoints to keep. */

enum {
    HISTORY_STEPS = 3, /* of undo; each holds what the calls since have replaced */
    HISTORY_NAMED = 8,
    HISTORY_NAME_BYTES = 65,
};

struct history_state {
    unsigned cell;
    char name[HISTORY_NAME_BYTES]; /* of a named state, else empty */
    struct names names;            /* the variables that were there */
};

struct history {
    struct history_state now;
    struct history_state before[HISTORY_STEPS]; /* the newest last */
    unsigned steps;
    bool cut;                                  /* there were calls before before[0] */
    struct history_state named[HISTORY_NAMED]; /* the oldest first */
    unsigned named_count;
};

/* A call begins that may be undone to the present state. */
void history_push(struct history *history);

/* Takes the present state back to what it was before the last call. false: nothing is known of it. */
bool history_pop(struct history *history);

/* Gives the present state a name. dropped: the name that had to go, or empty. */
void history_name(struct history *history, const char *name, char dropped[HISTORY_NAME_BYTES]);

/* NULL: there is none of that name. */
const struct history_state *history_find(const struct history *history, const char *name);

/* The state that this cell made, or NULL. */
const struct history_state *history_of_cell(const struct history *history, unsigned cell);

/* The cells of all states but the present, each once, without 0. cells: room for all of them.
 * Returns how many. */
unsigned history_cells(const struct history *history, unsigned *cells);

/* Whether the checkpoint of this cell is needed, beside that of the present state. */
bool history_uses(const struct history *history, unsigned cell);

/* The checkpoint of this cell is gone: steps of undo that reach it end before it. Returns the name
 * that it had, copied to lost, or empty. */
const char *history_forget(struct history *history, unsigned cell, char lost[HISTORY_NAME_BYTES]);

/* Drops the oldest step of undo. false: there is none. */
bool history_shorten(struct history *history);
