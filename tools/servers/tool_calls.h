#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "rpc/text.h"

struct rpc_client;
struct run;
struct tool_call;
struct tool_calls;

/* Forms that tool servers have the user fill in. Pure. */

/* New: what the user sees of the requestedSchema of an elicitation. Has only what the protocol
 * knows, with invisible characters escaped and long texts cut. NULL: the schema is no form, or has
 * such a text where the response must repeat it. */
json_t *tool_form_new(json_t *schema);

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

/* Elicitations of a tool server, which are passed on to the user while code calls it. */

struct tool_elicitations {
    const struct cell_asker *asker; /* NULL: all are declined. Borrowed, as is the next */
    const char *name;               /* of the server */
    struct tool_elicitation *list;
    unsigned count;
};

/* id: of the elicitation. content: of the form; NULL: it is declined. Both are borrowed. */
typedef void (*tool_elicited_fn)(void *arg, const json_t *id, const json_t *content);

/* The calls at one tool server: they leave in their order, LIMIT_TOOL_CALLS at a time, and the
 * server may ask the user on their behalf. */

enum tool_outcome {
    TOOL_RESULT,  /* text: its JSON */
    TOOL_ERROR,   /* the server has refused the call; text: its message, of any kind */
    TOOL_NOTHING, /* there will be no response; text: why, a clause about the server */
};

/* Embedded; zeroed but for the members that its owner sets. */
struct tool_call {
    struct tool_call *next;
    struct tool_calls *calls;
    const char *tool;
    json_t *arguments; /* owned by the owner, as is the name */
    struct run *run;   /* that calls it */
    uint32_t session;  /* of the run */
    unsigned request;  /* 0: it has not left */
    unsigned rounds;   /* in which the server has asked for input */
    size_t missing;    /* responses in this round */
    json_t *input;     /* with it the call is sent again; NULL: nothing. Freed by the owner */
    /* The call's turn has come. False: it must not leave; it has been ended, or freed. */
    bool (*leave)(struct tool_call *call);
    /* It has ended, and may be freed. Not called after tool_calls_drop(). */
    void (*done)(struct tool_call *call, enum tool_outcome outcome, struct span text);
};

/* Starts zeroed but for the loop, which is borrowed. */
struct tool_calls {
    struct loop *loop;
    struct rpc_client *client; /* NULL: the server is down. Borrowed */
    bool leave;                /* the server is up; while it is not, calls wait */
    struct tool_call *queue;   /* in order */
    struct tool_call *sent;
    unsigned sent_count;
    uint32_t session; /* of the newest call, */
    unsigned cell;    /* and its cell */
    unsigned pings;   /* without a response */
    uint32_t left;    /* the session of cancelled calls, which may be at work; 0: there are none */
    struct tool_elicitations elicitations;
};

/* Sends the call when its turn comes; the server must be up. */
void tool_calls_add(struct tool_calls *calls, struct tool_call *call);
/* Nobody waits for it any more. */
void tool_calls_drop(struct tool_call *call);

/* Sends those whose turn it is. */
void tool_calls_send(struct tool_calls *calls);
/* The server asks, by a request of its own: rpc_client_events has the rest. */
void tool_calls_elicit(struct tool_calls *calls, const json_t *id, const json_t *params);

/* The server goes down: its elicitations end, no call leaves, and the client may be freed. */
void tool_calls_stop(struct tool_calls *calls);
/* After that: ends all calls. why: a clause about the server. */
void tool_calls_end(struct tool_calls *calls, const char *why);
