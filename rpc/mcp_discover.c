/* The revision 2026-07-28 has no initialize: each request names its version and is checked
 * alone. */
#include <string.h>

#include "rpc/call_table.h"
#include "rpc/elicitation.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

enum { DISCOVER_TTL_MS = 3600 * 1000 }; /* tools and instructions stay as long as the process */

static void discover(struct rpc_peer *peer, struct rpc_request *request)
{
    json_t *result = mcp_greeting(peer, request->context.has_ui, peer->tools.tasks != NULL);
    if (result && json_object_set_new(result, "supportedVersions",
                                      json_pack("[s]", MCP_STATELESS_VERSION)) < 0) {
        json_decref(result);
        result = NULL;
    }
    peer->greeted = peer->greeted || result;
    peer_respond(peer, request, result, MCP_KEEP_LONG);
}

/* The request stays open until it is cancelled or the connection ends. Nothing that a client can
 * subscribe to ever changes, so the honoured subset is empty. */
static void listen_open(struct rpc_peer *peer, struct rpc_request *request)
{
    static const char head[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
        "\"params\":{\"notifications\":{},\"_meta\":{\"" MCP_META_SUBSCRIPTION "\":";
    size_t before = buf_size(&peer->out);
    if (request->batch) {
        peer_refuse(peer, request, RPC_INVALID_REQUEST,
                    "Invalid request: subscriptions/listen must not be part of a batch", NULL);
        return;
    }
    if (json_object_get(json_object_get(request->params, "notifications"), "taskIds") &&
        peer->tools.tasks && mcp_tasks_missing(peer, request)) {
        return;
    }
    struct rpc_call *call = mcp_hold(peer, request);
    if (!call) {
        return;
    }
    if (buf_append_text(&peer->out, head) < 0 || rpc_text_dump(&peer->out, call->request.id) < 0 ||
        buf_append_text(&peer->out, "}}}\n") < 0) {
        buf_cut(&peer->out, before);
        call_respond(call, NULL, MCP_KEEP_UNSAID);
        return;
    }
    call->subscription = true;
    peer->written(peer->arg);
}

void mcp_discover_finish(struct rpc_peer *peer)
{
    struct rpc_call *next = NULL;
    for (struct rpc_call *call = peer->calls; call; call = next) {
        next = call->next;
        if (!call->subscription) {
            continue;
        }
        struct rpc_request request = {};
        (void)call_end(call, &request);
        json_t *result = json_pack("{s:{s:O}}", "_meta", MCP_META_SUBSCRIPTION, request.id);
        peer_respond(peer, &request, result, MCP_KEEP_UNSAID);
    }
}

static int discover_complete(const struct rpc_peer *peer, json_t *result, enum mcp_keep keep)
{
    if (!json_object_get(result, "_meta") &&
        json_object_set_new(result, "_meta", json_object()) < 0) {
        return -1;
    }
    bool kept = keep == MCP_KEEP_LONG;
    if (keep != MCP_KEEP_UNSAID &&
        (json_object_set_new(result, "ttlMs", json_integer(kept ? DISCOVER_TTL_MS : 0)) < 0 ||
         json_object_set_new(result, "cacheScope", json_string(kept ? "public" : "private")) < 0)) {
        return -1;
    }
    if (!json_object_get(result, "resultType") &&
        json_object_set_new(result, "resultType", json_string("complete")) < 0) {
        return -1;
    }
    return json_object_set_new(json_object_get(result, "_meta"), MCP_META_SERVER,
                               mcp_server_info(peer));
}

/* Ends the call with the elicitation: the client repeats it with its user's response. A task gets
 * that by tasks/update. */
static void discover_elicit(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                            rpc_elicitation_fn fn, void *arg)
{
    const json_t *said = json_object_get(call->request.context.input_responses, elicitation->key);
    if (said) {
        elicitation_report(said, fn, arg);
        return;
    }
    struct rpc_peer *peer = call->peer;
    json_t *input = json_pack("{s:o}", elicitation->key, elicitation_request(elicitation));
    if (call->gets_task) {
        json_decref(call->input);
        call->input = input;
        fn(arg, RPC_ELICITATION_LATER, NULL);
        return;
    }
    json_t *result = input ? json_pack("{s:s, s:o, s:s*}", "resultType", "input_required",
                                       "inputRequests", input, "requestState", elicitation->state)
                           : NULL;
    struct rpc_request request = {};
    fn(arg, RPC_ELICITATION_LATER, NULL);
    (void)call_end(call, &request);
    peer_respond(peer, &request, result, MCP_KEEP_UNSAID);
}

static const struct rpc_method methods[] = {
    {"tools/call", mcp_tools_call},
    {"tools/list", mcp_tools_list},
    {"resources/list", mcp_resources_list},
    {"resources/templates/list", mcp_resources_templates},
    {"resources/read", mcp_resources_read},
    {"server/discover", discover},
    {"subscriptions/listen", listen_open},
    {"tasks/get", mcp_tasks_get},
    {"tasks/cancel", mcp_tasks_cancel},
    {"tasks/update", mcp_tasks_update},
    {},
};

static const struct mcp_era era = {
    .methods = methods,
    .not_found = RPC_INVALID_PARAMS,
    .complete = discover_complete,
    .elicit = discover_elicit,
};

bool mcp_discover_admit(struct rpc_peer *peer, struct rpc_request *request, const json_t *meta)
{
    const json_t *version = json_object_get(meta, MCP_META_VERSION);
    request->context.era = &era;
    if (!json_is_string(version) || !json_is_object(json_object_get(meta, MCP_META_CAPABILITIES))) {
        return peer_refuse(peer, request, RPC_INVALID_PARAMS,
                           "Invalid _meta: " MCP_META_VERSION " (string) and " MCP_META_CAPABILITIES
                           " (object) are required",
                           NULL);
    }
    const char *text = rpc_text_plain(version);
    if (!text || strcmp(text, MCP_STATELESS_VERSION) != 0) {
        json_auto_t *data =
            json_pack("{s:[s], s:O}", "supported", MCP_STATELESS_VERSION, "requested", version);
        return peer_refuse(peer, request, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version",
                           data);
    }
    json_t *responses = json_object_get(request->params, "inputResponses");
    if (responses && !json_is_object(responses)) {
        return peer_refuse(peer, request, RPC_INVALID_PARAMS,
                           "Invalid params: inputResponses must be an object", NULL);
    }
    json_t *state = json_object_get(request->params, "requestState");
    if (state && !json_is_null(state) && !rpc_text_plain(state)) { /* else it would run anew */
        return peer_refuse(peer, request, RPC_INVALID_PARAMS,
                           "Invalid params: requestState must be a string, as it was sent", NULL);
    }
    request->context.input_responses = json_incref(responses);
    request->context.request_state = json_incref(state);
    const json_t *capabilities = json_object_get(meta, MCP_META_CAPABILITIES);
    request->context.can_elicit = elicitation_is_declared(capabilities);
    request->context.has_tasks = mcp_tasks_declared(capabilities);
    request->context.has_ui = mcp_ui_declared(peer, capabilities);
    request->context.has_structured = true;
    return true;
}
