#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "base/loop.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "rpc/message.h"

/* A connection without its descriptors: what rpc knows of the client, and the requests that it has
 * sent. Private to rpc. */

enum mcp_version {
    MCP_VERSION_NONE, /* no initialize yet */
    MCP_VERSION_2024_11_05,
    MCP_VERSION_2025_03_26,
    MCP_VERSION_2025_06_18,
    MCP_VERSION_2025_11_25,
    MCP_VERSION_COUNT,
};

struct rpc_peer {
    struct rpc_config config;
    struct rpc_tools tools;
    struct loop *loop;
    struct buf out;             /* whole lines that are not yet written */
    void (*written)(void *arg); /* out has a new line */
    void *arg;                  /* of written */
    enum mcp_version version;   /* of the last initialize */
    bool can_elicit;            /* of the last initialize: the client can ask its user */
    bool has_ui;                /* the same: the client shows views */
    unsigned elicitations;      /* sent so far: numbers their ids */
    bool marked;                /* the line that is dispatched: see rpc_text_load_marked() */
    bool greeted;               /* the first handshake has had its response */
    struct rpc_call *calls;     /* in flight, and cancelled ones that have not ended */
    size_t call_count;
};

/* Cancels the calls and forgets them; they stay valid until they end. */
void rpc_peer_done(struct rpc_peer *peer);

/* An open elicitation. Zeroed: none. */
struct call_elicitation {
    json_t *id; /* owned: of our request to the client */
    struct loop_timer timer;
    rpc_elicitation_fn fn;
    void *arg;
};

/* A request, from the line that has it up to its response. */
struct rpc_call {
    struct rpc_peer *peer; /* NULL once the connection is gone */
    struct rpc_call *next;
    json_t *id;              /* owned */
    struct rpc_batch *batch; /* NULL if the request came alone */

    /* What the request, or an initialize before it, says of the client: */
    bool is_stateless;       /* of 2026-07-28, else of the generation that starts with initialize */
    bool can_elicit;         /* the client can ask its user */
    bool has_tasks;          /* the client takes a task for a result */
    bool has_ui;             /* the client shows views */
    bool has_structured;     /* its version has structured content, and links to resources */
    json_t *progress_token;  /* owned; NULL: no progress is requested */
    json_t *input_responses; /* owned: ElicitResults by key, or NULL */
    json_t *request_state;   /* owned: of the result before, or NULL */
    json_t *trace;           /* owned: its trace context, or NULL */

    bool subscription; /* a listen request: held open, no tool has it */
    bool cancelled;
    bool ended;
    uint64_t since_ns;
    const json_t *content;     /* of its result, while on_end is called; NULL: it has none */
    bool is_error;             /* the same */
    void (*on_end)(void *arg); /* may be NULL */
    void *on_end_arg;
    size_t halves;             /* of surrogate pairs in its arguments */
    char note[RPC_NOTE_BYTES]; /* empty: none */
    json_t *meta;              /* of the result; NULL: none */
    double progress;           /* the last that was sent; below zero before the first */
    uint64_t progress_ns;
    struct call_elicitation elicitation;
    bool gets_task; /* a request of tasks/get or tasks/update */
    json_t *input;  /* owned: what the client is to ask its user for the task; or NULL */
    json_t *task;   /* owned: of it, which the result belongs to; or NULL */
    void *data;
};

/* --- dispatch.c --- */

/* Parses one line of the client, carries out what can be done at once, and starts the rest. */
void dispatch_line(struct rpc_peer *peer, struct span text);
/* Refuses a line that was too long to be kept. outline: what is left of it. */
void dispatch_too_long(struct rpc_peer *peer, struct span outline);

/* --- mcp.c --- */

struct rpc_method {
    const char *name;
    /* Ends the call now or later. params: an object, borrowed until this returns, or NULL. */
    void (*fn)(struct rpc_call *call, const json_t *params);
    bool is_stateful;  /* it belongs to the generation that starts with initialize, */
    bool is_stateless; /* to 2026-07-28, or to both */
};

extern const struct rpc_method mcp_methods[]; /* ends with a NULL name */

/* Whether the server has views, and a client's capabilities declare that it shows them. */
bool mcp_ui_declared(const struct rpc_peer *peer, const json_t *capabilities);

/* Whether a client may cache a result. */
enum mcp_keep {
    MCP_KEEP_UNSAID, /* of a call: no client caches it */
    MCP_KEEP_LONG,   /* the same as long as the process lives */
    MCP_KEEP_NOT,    /* valid at this moment, for this client */
};

/* Adds what 2026-07-28 requires in every result, and in those that clients may cache. 0 or -1. */
int mcp_complete(const struct rpc_call *call, json_t *result, enum mcp_keep keep);

/* Responds to the open listen requests as the connection ends. */
void mcp_finish(struct rpc_peer *peer);

/* --- call.c --- */

/* A batch collects responses until call_batch_close() was called and all its calls have ended.
 * Returns NULL when out of memory. */
struct rpc_batch *call_batch_new(void);
void call_batch_close(struct rpc_peer *peer, struct rpc_batch *batch);

/* Sends an error for a line, which has no more of a call than peer, id and batch; or for a call,
 * without ending it. data: borrowed, may be NULL. */
void call_send_error(const struct rpc_call *line, int code, const char *text, const json_t *data);

/* Returns NULL when out of memory, and has refused the line. */
struct rpc_call *call_new(const struct rpc_call *line);

/* Each ends the call with its only response, as rpc_call_fail() does. result: stolen; NULL (out of
 * memory) sends -32603. data: borrowed, may be NULL. call_refuse() returns false. */
void call_respond(struct rpc_call *call, json_t *result, enum mcp_keep keep);
bool call_refuse(struct rpc_call *call, int code, const char *text, const json_t *data);

/* The call whose request has this id, or NULL. */
struct rpc_call *call_find(const struct rpc_peer *peer, const json_t *id);

/* No response will be sent. The call may be gone afterwards. */
void call_cancel(struct rpc_call *call);
void call_cancel_all(struct rpc_peer *peer);

/* Sends a notification. params: stolen; NULL: out of memory. 0 or -ENOMEM: nothing was sent. */
int peer_notify(struct rpc_peer *peer, const char *method, json_t *params);

/* --- elicitation.c --- */

/* Whether a client that declares these capabilities shows forms. */
bool elicitation_is_declared(const json_t *capabilities);

/* Takes the client's response to a request of ours. Unknown ids are ignored. */
void elicitation_receive(struct rpc_peer *peer, const json_t *id, const json_t *result);

/* Both tell the client that it may close its dialogue, unless the connection is gone.
 * drop: does not call fn. give_up: calls it with RPC_ELICITATION_NONE if an elicitation was open,
 * and returns whether one was. */
void elicitation_drop(struct rpc_call *call);
bool elicitation_give_up(struct rpc_call *call);

/* The trace context of a request (MCP SEP-414): what a client's tracing wants passed on. New: an
 * object with those of traceparent, tracestate and baggage that meta has in the formats of the W3C,
 * each at most LIMIT_TRACE_BYTES long, so that they are printable ASCII; NULL: none is, or there is
 * no memory. meta: a request's _meta, borrowed, may be anything. */
json_t *rpc_trace_new(const json_t *meta);
