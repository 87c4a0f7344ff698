#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Error codes on the wire: JSON-RPC 2.0 section 5.1, and MCP for the last three. */
enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_UNSUPPORTED_VERSION = -32022,
    RPC_MISSING_CAPABILITY = -32021,
    RPC_RESOURCE_NOT_FOUND = -32002, /* until 2025-11-25 */
};

/* A request that is still without a response. */
struct rpc_call;

/* Both end the call: it must not be used afterwards. They send nothing when the call was cancelled.
 * content: stolen, the array of content blocks; NULL (out of memory) sends -32603. structured:
 * stolen, or NULL. */
void rpc_call_result(struct rpc_call *call, json_t *content, json_t *structured, bool is_error);
/* code: of enum rpc_code. message: one short sentence. */
void rpc_call_fail(struct rpc_call *call, int code, const char *message);

/* The same for a request about resources. result: stolen, as above. uri: of the resource that is
 * missing. */
void rpc_call_respond(struct rpc_call *call, json_t *result);
void rpc_call_not_found(struct rpc_call *call, const char *uri);

/* Whether the result is to have structured content. */
bool rpc_call_wants_structured(const struct rpc_call *call);

/* Whether a result may name resources, in blocks of type resource_link: there are resources, and
 * the client's version knows the blocks. */
bool rpc_call_wants_links(const struct rpc_call *call);

/* Whether the client shows the result in a view. */
bool rpc_call_wants_view(const struct rpc_call *call);

/* Whether the client sent a progress token. Drops progress that does not increase, or that comes
 * sooner than LIMIT_PROGRESS_GAP_MS after the last. message: any bytes, or NULL. */
bool rpc_call_wants_progress(const struct rpc_call *call);
void rpc_call_progress(struct rpc_call *call, double progress, const char *message);

/* An elicitation: the client asks its user. All members are borrowed during rpc_call_elicit(). key:
 * identifies exactly what is asked, so that no response is taken for that of another elicitation.
 * schema: JSON Schema of the form, an object whose properties are of primitive types. state: what
 * the client must repeat where it makes the call again, or NULL. A call of rpc_tasks does not end
 * with it: the task requires input. */
struct rpc_elicitation {
    const char *key;
    const char *message;
    const json_t *schema;
    const char *state;
};

enum rpc_elicitation_outcome {
    RPC_ELICITATION_ACCEPTED,
    RPC_ELICITATION_DECLINED,
    RPC_ELICITATION_DISMISSED, /* the user closed the dialogue without a choice */
    RPC_ELICITATION_NONE, /* the client cannot ask, sent something else, was silent for too long, or
                             cancelled the call */
    RPC_ELICITATION_LATER, /* the call ends after fn: the client asks and makes it again */
    RPC_ELICITATION_COUNT,
};

/* content: of an accepted form, borrowed, or NULL. Nothing has checked that it fits the schema. */
typedef void (*rpc_elicitation_fn)(void *arg, enum rpc_elicitation_outcome answer,
                                   const json_t *content);

/* Whether the client can ask its user on behalf of this call. */
bool rpc_call_can_elicit(const struct rpc_call *call);
/* Whether it can while the call goes on. Else an elicitation ends the call. */
bool rpc_call_elicits_meanwhile(const struct rpc_call *call);

/* Asks the user. Calls fn once, maybe before this returns, but not when the tool ends the call
 * meanwhile. A tool whose call waits here learns of a cancellation through fn, not through
 * cancel(). A call has at most one open elicitation.
 * Source: MCP 2025-11-25 client/elicitation; MCP 2026-07-28 basic/patterns/mrtr. */
void rpc_call_elicit(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                     rpc_elicitation_fn fn, void *arg);
/* The state of the elicitation after which this call was made again, borrowed; NULL: none. */
const char *rpc_call_state(const struct rpc_call *call);
/* Nobody waits for the user any more: fn is not called. */
void rpc_call_withdraw(struct rpc_call *call);

/* A task: a call that goes on after its request got its response. All members are borrowed. */
enum rpc_task_status {
    RPC_TASK_WORKING,
    RPC_TASK_COMPLETED,
    RPC_TASK_CANCELLED, /* it has no result */
    RPC_TASK_STATUS_COUNT,
};

struct rpc_task {
    const char *id;
    const char *message; /* one line of any bytes */
    enum rpc_task_status status;
    uint64_t created_ms; /* since 1970 */
    uint64_t updated_ms;
    uint64_t ttl_ms; /* from its creation: how long it is kept */
};

/* Whether the call may get a task instead of its result: its request has declared them. */
bool rpc_call_wants_task(const struct rpc_call *call);

/* Ends the call with a task that has no result (yet): a call of a tool that wants one, or a call of
 * rpc_tasks.get(). */
void rpc_call_task(struct rpc_call *call, const struct rpc_task *task);

/* For a call of rpc_tasks.get(): the result with which it will be ended is that of this task. */
void rpc_call_set_task(struct rpc_call *call, const struct rpc_task *task);

bool rpc_call_cancelled(const struct rpc_call *call);

/* The request's trace context, an object of strings (rpc_trace_new()), borrowed; NULL: it has none.
 */
json_t *rpc_call_trace(const struct rpc_call *call);

/* When the request was dispatched, CLOCK_MONOTONIC. */
uint64_t rpc_call_since_ns(const struct rpc_call *call);

/* fn is called when the call has been ended, before its response is sent, also after the connection
 * is gone. */
void rpc_call_on_end(struct rpc_call *call, void (*fn)(void *arg), void *arg);

/* For fn: the content of the result, borrowed; NULL: the call has none. */
const json_t *rpc_call_content(const struct rpc_call *call, bool *ret_is_error);

/* While a tool is started: puts U+FFFD in the place of each half of a surrogate pair in what is of
 * its arguments, and returns how many there are; and how many there were in all so far. */
size_t rpc_call_unmark(struct rpc_call *call, json_t *value);
size_t rpc_call_halves(const struct rpc_call *call);

/* One more text block at the end of the result's content: at most RPC_NOTE_BYTES are kept. */
enum { RPC_NOTE_BYTES = 96 };
void rpc_call_set_note(struct rpc_call *call, const char *text);

/* A member of the result's _meta. value: stolen; NULL: none. */
void rpc_call_set_meta(struct rpc_call *call, const char *key, json_t *value);
/* Until the call has ended, also for fn of rpc_call_on_end(): that member, borrowed, or NULL. */
const json_t *rpc_call_meta(const struct rpc_call *call, const char *key);

/* For the tool, NULL at first. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
