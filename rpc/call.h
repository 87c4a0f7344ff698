#pragma once
#include <jansson.h>
#include <stdbool.h>

/* One request for a tool or a resource that has no answer yet. */
struct rpc_call;

/* Both end the call: it must not be used afterwards. They send nothing when the call was cancelled.
 * content: stolen, the array of content blocks; NULL (no memory to build it) answers -32603.
 * structured: stolen, or NULL. */
void rpc_call_result(struct rpc_call *call, json_t *content, json_t *structured, bool is_error);
/* code: of enum rpc_code. message: one short sentence. */
void rpc_call_fail(struct rpc_call *call, int code, const char *message);

/* The same for a request about resources. result: stolen, as above. uri: what was asked for. */
void rpc_call_answer(struct rpc_call *call, json_t *result);
void rpc_call_not_found(struct rpc_call *call, const char *uri);

/* Whether the result is to have structured content. */
bool rpc_call_wants_structured(const struct rpc_call *call);

/* Whether the host gave a progress token. Progress that does not increase, or that comes sooner
 * than LIMIT_PROGRESS_GAP_MS after the last, is dropped. message: any bytes, or NULL. */
bool rpc_call_wants_progress(const struct rpc_call *call);
void rpc_call_progress(struct rpc_call *call, double progress, const char *message);

/* A question to the user, who answers through the host. All borrowed for the call of rpc_call_ask().
 * key: names exactly what is asked, so that no answer is taken for another's. schema: JSON Schema of
 * the form, an object whose properties are of primitive types. */
struct rpc_question {
    const char *key;
    const char *message;
    const json_t *schema;
};

enum rpc_answer {
    RPC_ANSWER_ACCEPTED,
    RPC_ANSWER_DECLINED,
    RPC_ANSWER_DISMISSED, /* the user closed the question without a choice */
    RPC_ANSWER_NONE,  /* the host cannot ask, did not understand, was silent for too long, or has
                             cancelled the call */
    RPC_ANSWER_LATER, /* the call has ended: the host asks and makes the same call again */
    RPC_ANSWER_COUNT,
};

/* content: of an accepted form, borrowed, or NULL. It is the host's word: its form is not checked. */
typedef void (*rpc_answer_fn)(void *arg, enum rpc_answer answer, const json_t *content);

/* Whether the host has said that it can ask its user on behalf of this call. */
bool rpc_call_can_ask(const struct rpc_call *call);

/* Asks. fn: once, maybe before this returns; not when the tool ends the call meanwhile. Of a call that
 * waits here the tool hears through fn that it was cancelled, not through cancel(). One question of a
 * call at a time.
 * Source: MCP 2025-11-25 client/elicitation; MCP 2026-07-28 basic/patterns/mrtr. Of the latter's
 * requestState nothing is sent: a host that forges an answer could as well forge the user's. */
void rpc_call_ask(struct rpc_call *call, const struct rpc_question *question, rpc_answer_fn fn,
                  void *arg);

bool rpc_call_cancelled(const struct rpc_call *call);

/* For the tool, NULL at first. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
