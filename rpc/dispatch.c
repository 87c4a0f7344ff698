#include "rpc/dispatch.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "rpc/call_table.h"
#include "rpc/elicitation.h"
#include "rpc/mcp.h"

static void dispatch_notification(struct rpc_peer *peer, const struct message *message)
{
    if (strcmp(message->method, "notifications/cancelled") != 0) {
        return;
    }
    struct rpc_call *call = call_find(peer, json_object_get(message->params, "requestId"));
    if (call) { /* else it has ended or never existed: the specification requires silence */
        call_cancel(call);
    }
}

static void dispatch_request(struct rpc_peer *peer, struct rpc_request *request)
{
    if (call_find(peer, request->id)) {
        peer_refuse(peer, request, RPC_INVALID_REQUEST,
                    "Invalid request: a request with this id is in flight", NULL);
        return;
    }
    if (request->params && !json_is_object(request->params)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: must be an object", NULL);
        return;
    }
    const json_t *meta = json_object_get(request->params, "_meta");
    /* A token of another type: sends no progress, the request itself is valid. */
    request->context.progress_token = json_incref(rpc_id(json_object_get(meta, "progressToken")));
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

static void dispatch_message(struct rpc_peer *peer, json_t *value, struct rpc_batch *batch)
{
    struct message message;
    message_classify(value, &message);
    if (message.kind == MESSAGE_REQUEST || message.kind == MESSAGE_INVALID) {
        struct rpc_request request = {
            .id = json_incref(message.id), .method = message.method, .params = message.params};
        if (batch) {
            rpc_batch_join(batch, &request);
        }
        if (message.kind == MESSAGE_INVALID) {
            peer_refuse(peer, &request, RPC_INVALID_REQUEST, message.problem, NULL);
        } else {
            log_trace("rpc", "request method=%s", message.method);
            dispatch_request(peer, &request);
        }
    } else if (message.kind == MESSAGE_NOTIFICATION) {
        dispatch_notification(peer, &message);
    } else if (message.kind == MESSAGE_RESPONSE) {
        elicitation_receive(peer, message.id, json_object_get(value, "result"));
    }
}

static void dispatch_batch(struct rpc_peer *peer, json_t *array)
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
    for (size_t i = 0; i < size; i++) {
        dispatch_message(peer, json_array_get(array, i), batch);
    }
    rpc_batch_close(peer, batch);
}

void dispatch_line(struct rpc_peer *peer, struct span line)
{
    struct rpc_request whole = {};
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_auto_t *value = message_parse(line, &code, &problem, &whole.id);
    if (!value) {
        peer_refuse(peer, &whole, (int)code, problem, NULL);
    } else if (json_is_array(value)) {
        dispatch_batch(peer, value);
    } else {
        dispatch_message(peer, value, NULL);
    }
}

void dispatch_too_long(struct rpc_peer *peer, struct span outline)
{
    struct rpc_request whole = {.id = message_rescue_id(outline)};
    peer_refuse(peer, &whole, RPC_INVALID_REQUEST,
                "Invalid request: the line is longer than 16 MiB", NULL);
}
