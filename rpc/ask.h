#pragma once
#include "rpc/call_table.h"

/* Questions to the user that are on their way. Private to rpc. */

/* New: method and params of elicitation/create, or NULL when there is no memory. */
json_t *ask_request(const struct rpc_question *question);

/* Whether capabilities, as a host declares them, have forms. */
bool ask_is_declared(const json_t *capabilities);

/* Tells fn what an ElicitResult says. result: borrowed, may be NULL or anything. */
void ask_tell(const json_t *result, rpc_answer_fn fn, void *arg);

/* The host has answered a request of ours. Unknown ids are ignored. */
void ask_answered(struct rpc_peer *peer, const struct rpc_id *id, const json_t *result);

/* Nobody waits for the answer any more: the host may close its dialogue. drop: fn is not called. give_up: it
 * is, with RPC_ANSWER_NONE, if a question was open; returns whether it was. peer: NULL when it is gone. */
void ask_drop(struct rpc_peer *peer, struct rpc_call *call);
bool ask_give_up(struct rpc_peer *peer, struct rpc_call *call);
