#include "rpc/call_table.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

static bool have_resources(struct rpc_peer *peer, struct rpc_request *request)
{
    return peer->tools.resources || request->context.has_ui ||
           peer_refuse(peer, request, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
}

void mcp_resources_list(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *cursor = json_object_get(request->params, "cursor");
    if (!have_resources(peer, request)) {
        return;
    }
    if (cursor && !json_is_null(cursor) && !rpc_text_plain(cursor)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Unknown cursor", NULL);
        return;
    }
    if (!peer->tools.resources) {
        json_t *view = peer->tools.page ? peer->tools.page(peer->tools.ctx, NULL) : NULL;
        peer_respond(peer, request, json_pack("{s:[o*]}", "resources", view), MCP_KEEP_LONG);
        return;
    }
    struct rpc_call *call = mcp_hold(peer, request);
    if (call) {
        peer->tools.resources->list(peer->tools.ctx, call, json_string_value(cursor));
    }
}

void mcp_resources_templates(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!have_resources(peer, request) || !mcp_is_first_page(peer, request)) {
        return;
    }
    const struct rpc_resources *resources = peer->tools.resources;
    json_t *templates = resources ? resources->templates(peer->tools.ctx) : json_array();
    peer_respond(peer, request,
                 templates ? json_pack("{s:o}", "resourceTemplates", templates) : NULL,
                 MCP_KEEP_LONG);
}

void mcp_resources_read(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *uri = json_object_get(request->params, "uri");
    const char *name = rpc_text_plain(uri);
    json_t *view = name && peer->tools.page ? peer->tools.page(peer->tools.ctx, name) : NULL;
    if (view) {
        peer_respond(peer, request, json_pack("{s:[o]}", "contents", view), MCP_KEEP_LONG);
        return;
    }
    if (!have_resources(peer, request)) {
        return;
    }
    if (!name) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: uri must be a string",
                    NULL);
        return;
    }
    struct rpc_call *call = mcp_hold(peer, request);
    if (call && peer->tools.resources) {
        peer->tools.resources->read(peer->tools.ctx, call, name);
    } else if (call) {
        rpc_call_not_found(call, name);
    }
}
