#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "rpc/call.h"
#include "rpc/peer.h"

/* The requests of one peer that are not yet answered. Private to rpc. */

/* A question that waits for its answer. Zeroed: none. */
struct call_ask {
    struct rpc_id id; /* of our request to the host */
    struct loop_timer timer;
    rpc_answer_fn fn;
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
    double progress; /* the last that was sent, below zero at first */
    uint64_t progress_ns;
    struct call_ask ask;
    void *data;
};

/* Takes over the request's id, token and batch. NULL when there is no memory; the request is as
 * before then. */
struct rpc_call *call_new(struct rpc_peer *peer, struct rpc_request *request);

/* Takes the call off its peer and frees it. *ret_request gets the request back. */
void call_end(struct rpc_call *call, struct rpc_request *ret_request);

/* The call that waits for an answer under this id, or NULL. */
struct rpc_call *call_find(const struct rpc_peer *peer, const struct rpc_id *id);

/* No answer will be sent. The call may be gone afterwards. */
void call_cancel(struct rpc_call *call);
void call_cancel_all(struct rpc_peer *peer);
void call_forget_all(struct rpc_peer *peer);
