#pragma once
#include "rpc/call_table.h"

/* Open elicitations. Private to rpc. */

/* New: method and params of elicitation/create, or NULL when out of memory. */
json_t *elicitation_request(const struct rpc_elicitation *elicitation);

/* Whether a client that declares these capabilities shows forms. */
bool elicitation_is_declared(const json_t *capabilities);

/* Calls fn with what an ElicitResult says. result: borrowed, may be NULL or anything. */
void elicitation_report(const json_t *result, rpc_elicitation_fn fn, void *arg);

/* Takes the client's response to a request of ours. Unknown ids are ignored. */
void elicitation_receive(struct rpc_peer *peer, const json_t *id, const json_t *result);

/* Both tell the client that it may close its dialogue. peer: NULL once the connection is gone.
 * drop: does not call fn. give_up: calls it with RPC_ELICITATION_NONE if an elicitation was open,
 * and returns whether one was. */
void elicitation_drop(struct rpc_peer *peer, struct rpc_call *call);
bool elicitation_give_up(struct rpc_peer *peer, struct rpc_call *call);
