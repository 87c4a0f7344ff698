#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "rpc/text.h"
#include "tools/servers/tool_elicitation.h"

/* The calls at one tool server: they leave in their order, LIMIT_TOOL_CALLS at a time, and the
 * server may ask the user on their behalf. */

struct run;
struct rpc_client;
struct tool_calls;

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
