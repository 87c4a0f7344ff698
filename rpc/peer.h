#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "rpc/message.h"

/* What rpc knows of the client at the other end, without its descriptors. Private to rpc. */

struct rpc_batch;
struct rpc_peer;
struct rpc_request;

typedef void (*rpc_method_fn)(struct rpc_peer *peer, struct rpc_request *request);

struct rpc_method {
    const char *name;
    rpc_method_fn fn;
};

/* Whether a client may cache a result. */
enum mcp_keep {
    MCP_KEEP_UNSAID, /* of a call: no client caches it */
    MCP_KEEP_LONG,   /* the same as long as the process lives */
    MCP_KEEP_NOT,    /* valid at this moment, for this client */
};

/* A generation of the protocol: mcp_handshake.c and mcp_discover.c each have one. */
struct mcp_era {
    const struct rpc_method *methods; /* ends with a NULL name */
    int not_found;                    /* the code for a resource that does not exist */
    /* Adds what this era requires in every result, and in those that clients may cache. 0 or -1.
     * NULL: nothing. */
    int (*complete)(const struct rpc_peer *peer, json_t *result, enum mcp_keep keep);
    bool elicits_meanwhile; /* not by ending the call */
    /* As rpc_call_elicit(), for a call that can. */
    void (*elicit)(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                   rpc_elicitation_fn fn, void *arg);
};

/* All that the code above the two eras sees of the protocol version. */
struct request_context {
    const struct mcp_era *era;
    json_t *progress_token;  /* owned; NULL: no progress is requested */
    bool can_elicit;         /* the client can ask its user */
    bool has_tasks;          /* the client takes a task for a result */
    bool has_ui;             /* the client shows views */
    bool has_structured;     /* its version has structured content, and links to resources */
    json_t *input_responses; /* owned: ElicitResults by key, or NULL */
    json_t *request_state;   /* owned: of the result before, or NULL */
};

struct rpc_request {
    json_t *id;              /* owned; NULL: none could be read */
    const char *method;      /* borrowed while the line is dispatched */
    json_t *params;          /* borrowed while the line is dispatched: an object, or NULL */
    struct rpc_batch *batch; /* NULL if the request came alone */
    struct request_context context;
};

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
    bool greeted;               /* the first handshake has had its response */
    struct rpc_call *calls;     /* in flight, and cancelled ones that have not ended */
    size_t call_count;
};

/* Cancels the calls and forgets them; they stay valid until they end. */
void rpc_peer_done(struct rpc_peer *peer);

/* Each sends the request's only response, and ends it. result: stolen; NULL (out of memory) sends
 * -32603. data: borrowed, may be NULL. */
void peer_respond(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                  enum mcp_keep keep);
/* As peer_respond(), for the result of a tool that has done its work: replaces one that is longer
 * than LIMIT_LINE_OUT_BYTES by a sentence that says so. */
void peer_respond_work(struct rpc_peer *peer, struct rpc_request *request, json_t *result);
/* The same for the result of a task. task: borrowed, without its result; NULL: out of memory. */
void peer_respond_task(struct rpc_peer *peer, struct rpc_request *request, json_t *task,
                       json_t *result);
/* Returns false. */
bool peer_refuse(struct rpc_peer *peer, struct rpc_request *request, int code, const char *text,
                 const json_t *data);
/* Sends a notification. params: stolen; NULL: out of memory. 0 or -ENOMEM: nothing was sent. */
int peer_notify(struct rpc_peer *peer, const char *method, json_t *params);
/* Ends a request without a response: frees what it owns, and ends the batch with the last one. */
void peer_drop(struct rpc_peer *peer, struct rpc_request *request);

/* A batch collects responses until rpc_batch_close() was called and all its requests have ended.
 * Returns NULL when out of memory. */
struct rpc_batch *rpc_batch_new(void);
void rpc_batch_join(struct rpc_batch *batch, struct rpc_request *request);
void rpc_batch_close(struct rpc_peer *peer, struct rpc_batch *batch);
