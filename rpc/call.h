#pragma once
#include <jansson.h>
#include <stdbool.h>

/* One tools/call request that has no answer yet. */
struct rpc_call;

/* Both end the call: it must not be used afterwards. They send nothing when the call was cancelled.
 * content: stolen, the array of content blocks; NULL (no memory to build it) answers -32603.
 * structured: stolen, or NULL. */
void rpc_call_result(struct rpc_call *call, json_t *content, json_t *structured, bool is_error);
/* code: of enum rpc_code. message: one short sentence. */
void rpc_call_fail(struct rpc_call *call, int code, const char *message);

/* Whether the result is to have structured content. */
bool rpc_call_wants_structured(const struct rpc_call *call);

/* Whether the host gave a progress token. Progress that does not increase, or that comes sooner
 * than LIMIT_PROGRESS_GAP_MS after the last, is dropped. message: any bytes, or NULL. */
bool rpc_call_wants_progress(const struct rpc_call *call);
void rpc_call_progress(struct rpc_call *call, double progress, const char *message);

bool rpc_call_cancelled(const struct rpc_call *call);

/* For the tool, NULL at first. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
