#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/loop.h"

struct run;

/* An elicitation in the middle of a cell, through the call of the client that waits for the cell,
 * whose time stands still meanwhile. Embedded; all is borrowed until it ends. */
struct cell_elicitation {
    struct cell_elicitation *next;
    const char *kind; /* static, for the record: "tool" */
    const char *subject;
    const char *message; /* what the user reads */
    const json_t *form;  /* NULL: nothing to fill in */
    struct run *run;
    void *asker; /* set by who asks, as are the next two */
    unsigned number;
    struct loop_timer late; /* the call has ended with it: it waits for another call of the run */
    /* why: NULL: the user agrees; else a sentence. content: of the form, or NULL; nothing has
     * checked it. */
    void (*fn)(struct cell_elicitation *elicitation, const char *why, const json_t *content);
};

/* Who asks. NULL: nobody can. ask: calls fn once, maybe before it returns. withdraw: nobody waits
 * for the user any more. */
struct cell_asker {
    void *ctx;
    void (*ask)(void *ctx, struct cell_elicitation *elicitation);
    void (*withdraw)(void *ctx, struct cell_elicitation *elicitation);
};
