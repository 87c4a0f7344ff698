#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "rpc/message.h"

/* What rpc knows of the host at the other end, without its descriptors. Private to rpc. */

struct rpc_batch;
struct rpc_peer;
struct rpc_request;

typedef void (*rpc_method_fn)(struct rpc_peer *peer, struct rpc_request *request);

struct rpc_method {
    const char *name;
    rpc_method_fn fn;
};

/* What a host may do with a result beside using it. */
enum mcp_keep {
    MCP_KEEP_UNSAID, /* of a call: nobody keeps it */
    MCP_KEEP_LONG,   /* it is the same as long as the process lives */
    MCP_KEEP_NOT,    /* it is true at this moment, for this host */
};

/* A generation of the protocol: mcp_handshake.c and mcp_discover.c each have one. */
struct mcp_era {
    const struct rpc_method *methods; /* ends with a NULL name */
    int not_found;                    /* the code for a resource that is not there */
    /* Adds what this era wants in every result, and in those that hosts may keep. 0 or -1. */
    int (*complete)(const struct rpc_peer *peer, json_t *result, enum mcp_keep keep);
    bool (*has_structured_content)(const struct rpc_peer *peer);
    /* As rpc_call_ask(), for a call that can. */
    void (*ask)(struct rpc_call *call, const struct rpc_question *question, rpc_answer_fn fn,
                void *arg);
};

/* All that the code above the two eras sees of the protocol version. */
struct request_context {
    const struct mcp_era *era;
    struct rpc_id progress_token; /* without token: no progress is wanted */
    bool can_ask;                 /* the host can ask its user */
    json_t *answers;              /* owned: what its user has said, by question; or NULL */
};

struct rpc_request {
    struct rpc_id id;
    const char *method;      /* borrowed while the line is dispatched */
    json_t *params;          /* borrowed likewise: an object, or NULL */
    struct rpc_batch *batch; /* NULL unless it came in one */
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
    bool can_ask;               /* of the last initialize: the host can ask its user */
    unsigned questions;         /* that were asked: the next one's number */
    bool greeted;               /* a first handshake was answered */
    struct rpc_call *calls;     /* in flight, and cancelled ones that have not ended */
    size_t call_count;
};

/* Cancels the calls and forgets them; they stay valid until they end. */
void rpc_peer_done(struct rpc_peer *peer);

/* Each ends the request: it is answered once, here. result: stolen; NULL (no memory) answers
 * -32603. data: borrowed, may be NULL. */
void peer_answer(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                 enum mcp_keep keep);
/* As peer_answer(), for the result of a tool that has done its work: one that is longer than
 * LIMIT_LINE_OUT_BYTES is replaced by a sentence that says so. */
void peer_answer_work(struct rpc_peer *peer, struct rpc_request *request, json_t *result);
void peer_refuse(struct rpc_peer *peer, struct rpc_request *request, int code, const char *text,
                 const json_t *data);
/* Ends a request that gets no answer, because it was cancelled. */
void peer_drop(struct rpc_peer *peer, struct rpc_request *request);

/* A batch collects answers until rpc_batch_close() was called and all requests in it have ended.
 * NULL when there is no memory. */
struct rpc_batch *rpc_batch_new(void);
void rpc_batch_join(struct rpc_batch *batch, struct rpc_request *request);
void rpc_batch_close(struct rpc_peer *peer, struct rpc_batch *batch);
