#include "rpc/dispatch.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "rpc/ask.h"
#include "rpc/call_table.h"
#include "rpc/cut.h"
#include "rpc/mcp.h"
#include "rpc/scan.h"

/* The raw text of params._meta.progressToken or params.requestId: needed for integers that jansson
 * could not keep. Empty when it is not there. */
static struct span raw_in_params(struct span raw, const char *key, bool in_meta)
{
    struct span at = {};
    if (!scan_member(raw, "params", &at) || (in_meta && !scan_member(at, "_meta", &at)) ||
        !scan_member(at, key, &at)) {
        return (struct span){};
    }
    return at;
}

static int read_in_params(const json_t *value, struct span raw, const char *key, bool in_meta,
                          struct rpc_id *ret_id)
{
    struct span text = json_is_real(value) ? raw_in_params(raw, key, in_meta) : (struct span){};
    return rpc_id_read(value, text, ret_id);
}

static void dispatch_notification(struct rpc_peer *peer, const struct message *message,
                                  struct span raw)
{
    struct rpc_id id = {};
    if (strcmp(message->method, "notifications/cancelled") != 0) {
        return;
    }
    const json_t *value = json_object_get(message->params, "requestId");
    if (read_in_params(value, raw, "requestId", /* in_meta= */ false, &id) < 0) {
        return;
    }
    struct rpc_call *call = call_find(peer, &id);
    if (call) { /* else it has ended already, or never was: the specification wants silence */
        call_cancel(call);
    }
    rpc_id_done(&id);
}

static void dispatch_request(struct rpc_peer *peer, struct rpc_request *request, struct span raw)
{
    if (call_find(peer, &request->id)) {
        peer_refuse(peer, request, RPC_INVALID_REQUEST,
                    "Invalid request: a request with this id is in flight", NULL);
        return;
    }
    if (request->params && !json_is_object(request->params)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: must be an object", NULL);
        return;
    }
    const json_t *meta = json_object_get(request->params, "_meta");
    const json_t *token = json_object_get(meta, "progressToken");
    if (token) { /* of another type: no progress is sent, the request itself is good */
        (void)read_in_params(token, raw, "progressToken", /* in_meta= */ true,
                             &request->context.progress_token);
    }
    bool admitted = json_object_get(meta, MCP_META_VERSION)
                        ? mcp_discover_admit(peer, request, meta)
                        : mcp_handshake_admit(peer, request, meta);
    if (!admitted) {
        return;
    }
    const struct rpc_method *method = request->context.era->methods;
    while (method->name && strcmp(method->name, request->method) != 0) {
        method++;
    }
    if (!method->name) {
        peer_refuse(peer, request, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
        return;
    }
    method->fn(peer, request);
}

static void dispatch_message(struct rpc_peer *peer, json_t *value, struct span raw,
                             struct rpc_batch *batch)
{
    struct message message;
    message_classify(value, raw, &message);
    if (message.kind == MESSAGE_REQUEST || message.kind == MESSAGE_INVALID) {
        struct rpc_request request = {
            .id = message.id, .method = message.method, .params = message.params};
        message.id = (struct rpc_id){};
        if (batch) {
            rpc_batch_join(batch, &request);
        }
        if (message.kind == MESSAGE_INVALID) {
            peer_refuse(peer, &request, RPC_INVALID_REQUEST, message.problem, NULL);
        } else {
            log_trace("rpc", "request method=%s", message.method);
            dispatch_request(peer, &request, raw);
        }
    } else if (message.kind == MESSAGE_NOTIFICATION) {
        dispatch_notification(peer, &message, raw);
    } else if (message.kind == MESSAGE_RESPONSE) {
        ask_answered(peer, &message.id, json_object_get(value, "result"));
    }
    message_done(&message);
}

static void dispatch_batch(struct rpc_peer *peer, json_t *array, struct span raw)
{
    struct rpc_request whole = {};
    size_t size = json_array_size(array);
    if (peer->version != MCP_VERSION_2025_03_26) {
        peer_refuse(peer, &whole, RPC_INVALID_REQUEST,
                    "Invalid request: batches are not part of this protocol version", NULL);
        return;
    }
    if (size == 0 || size > LIMIT_BATCH_MESSAGES) {
        peer_refuse(peer, &whole, RPC_INVALID_REQUEST,
                    size == 0 ? "Invalid request: empty batch" : "Invalid request: batch too long",
                    NULL);
        return;
    }
    struct rpc_batch *batch = rpc_batch_new();
    if (!batch) {
        peer_refuse(peer, &whole, RPC_INTERNAL_ERROR, "Out of memory", NULL);
        return;
    }
    const char *at = NULL;
    for (size_t i = 0; i < size; i++) {
        struct span element = {};
        (void)scan_next(raw, &at, &element);
        dispatch_message(peer, json_array_get(array, i), element, batch);
    }
    rpc_batch_close(peer, batch);
}

void dispatch_line(struct rpc_peer *peer, struct span line, const struct cut *cut)
{
    struct rpc_request whole = {};
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_auto_t *value = message_parse(line, cut, &code, &problem, &whole.id);
    struct span raw = cut ? cut_rest(cut) : line; /* the same, but for long strings */
    if (!value) {
        peer_refuse(peer, &whole, (int)code, problem, NULL);
    } else if (json_is_array(value)) {
        dispatch_batch(peer, value, raw);
    } else {
        dispatch_message(peer, value, raw, NULL);
    }
}

void dispatch_too_long(struct rpc_peer *peer)
{
    struct rpc_request whole = {};
    peer_refuse(peer, &whole, RPC_INVALID_REQUEST, "Invalid request: the line is too long", NULL);
}
