#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "rpc/call.h"
#include "rpc/peer.h"

/* The requests of one peer that are still without a response. Private to rpc. */

/* An open elicitation. Zeroed: none. */
struct call_elicitation {
    json_t *id; /* owned: of our request to the client */
    struct loop_timer timer;
    rpc_elicitation_fn fn;
    void *arg;
};

struct rpc_call {
    struct rpc_peer *peer; /* NULL once the connection is gone */
    struct rpc_call *prev;
    struct rpc_call *next;
    struct rpc_request request; /* method and params are NULL here */
    bool subscription;          /* a listen request: held open, no tool has it */
    bool cancelled;
    bool ended;
    uint64_t since_ns;
    const json_t *content;     /* of its result, while on_end is called; NULL: it has none */
    bool is_error;             /* the same */
    void (*on_end)(void *arg); /* may be NULL */
    void *on_end_arg;
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

/* Takes over the request's id, token and batch. Returns NULL when out of memory, and leaves the
 * request unchanged. */
struct rpc_call *call_new(struct rpc_peer *peer, struct rpc_request *request);

/* Takes the call off its peer and frees it. *ret_request gets the request back. Returns false if
 * the call was cancelled: its request gets no response. */
bool call_end(struct rpc_call *call, struct rpc_request *ret_request);

/* Ends the call with a result, stolen. */
void call_respond(struct rpc_call *call, json_t *result, enum mcp_keep keep);

/* The call whose request has this id, or NULL. */
struct rpc_call *call_find(const struct rpc_peer *peer, const json_t *id);

/* No response will be sent. The call may be gone afterwards. */
void call_cancel(struct rpc_call *call);
void call_cancel_all(struct rpc_peer *peer);
void call_forget_all(struct rpc_peer *peer);
