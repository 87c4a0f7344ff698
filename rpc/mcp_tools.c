#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call_table.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

json_t *mcp_server_info(const struct rpc_peer *peer)
{
    return json_pack("{s:s, s:s*, s:s}", "name", peer->config.server_name, "title",
                     peer->config.server_title, "version", peer->config.server_version);
}

json_t *mcp_greeting(const struct rpc_peer *peer, bool has_ui, bool has_tasks)
{
    json_t *instructions = peer->tools.instructions(peer->tools.ctx);
    json_t *extensions =
        has_ui || has_tasks
            ? json_pack("{s:o*, s:o*}", MCP_EXTENSION_UI, has_ui ? json_object() : NULL,
                        MCP_EXTENSION_TASKS, has_tasks ? json_object() : NULL)
            : NULL;
    return json_pack("{s:{s:{}, s:o*, s:o*}, s:o*}", "capabilities", "tools", "resources",
                     peer->tools.resources || has_ui ? json_object() : NULL, "extensions",
                     extensions, "instructions", instructions);
}

/* Source: ext-apps specification/2026-01-26/apps.mdx, "Client<>Server Capability Negotiation". */
bool mcp_ui_declared(const struct rpc_peer *peer, const json_t *capabilities)
{
    const json_t *types = json_object_get(
        json_object_get(json_object_get(capabilities, "extensions"), MCP_EXTENSION_UI),
        "mimeTypes");
    size_t i = 0;
    const json_t *type = NULL;
    json_array_foreach (types, i, type) {
        const char *text = rpc_text_plain(type);
        if (peer->tools.page && text && strcmp(text, RPC_VIEW_TYPE) == 0) {
            return true;
        }
    }
    return false;
}

bool mcp_is_first_page(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *cursor = json_object_get(request->params, "cursor");
    return !cursor || json_is_null(cursor) ||
           peer_refuse(peer, request, RPC_INVALID_PARAMS, "Unknown cursor", NULL);
}

void mcp_tools_list(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!mcp_is_first_page(peer, request)) {
        return;
    }
    json_t *tools = peer->tools.list(peer->tools.ctx);
    json_t *result = tools ? json_pack("{s:o}", "tools", tools) : NULL;
    peer_respond(peer, request, result, MCP_KEEP_LONG);
}

struct rpc_call *mcp_hold(struct rpc_peer *peer, struct rpc_request *request)
{
    if (peer->call_count >= LIMIT_CALLS_IN_FLIGHT) {
        peer_refuse(peer, request, RPC_INTERNAL_ERROR,
                    "Too many calls in flight; wait until one has finished", NULL);
        return NULL;
    }
    struct rpc_call *call = call_new(peer, request);
    if (!call) {
        peer_respond(peer, request, NULL, MCP_KEEP_UNSAID);
    }
    return call;
}

/* "Unknown tool: bash. run_python runs it. Tools: run_python, write_file" */
static void refuse_unknown(struct rpc_call *call, const char *name)
{
    char shown[120];
    size_t index = 0;
    const char *instead = call->peer->tools.instead ? call->peer->tools.instead(name) : NULL;
    const json_t *tool = NULL;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_auto_t *tools = call->peer->tools.list(call->peer->tools.ctx);
    buf_appendf(&text, "Unknown tool: %s%s%s", word_show(name, strlen(name), shown, sizeof shown),
                instead ? ". " : "", instead ? instead : "");
    json_array_foreach (tools, index, tool) {
        buf_appendf(&text, "%s%s",
                    index     ? ", "
                    : instead ? " Tools: "
                              : ". Tools: ",
                    json_string_value(json_object_get(tool, "name")));
    }
    rpc_call_fail(call, RPC_INVALID_PARAMS, buf_error(&text) ? "Unknown tool" : buf_text(&text));
}

void mcp_tools_call(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *name = json_object_get(request->params, "name");
    json_t *sent = json_object_get(request->params, "arguments");
    if (!json_is_string(name)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: name must be a string",
                    NULL);
        return;
    }
    if (sent && !json_is_object(sent) && !json_is_null(sent)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS,
                    "Invalid params: arguments must be an object", NULL);
        return;
    }
    json_auto_t *arguments = json_is_object(sent) ? json_incref(sent) : json_object();
    struct rpc_call *call = mcp_hold(peer, request);
    if (!call) {
        return;
    }
    const char *text = rpc_text_plain(name);
    if (!arguments) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "Out of memory");
    } else if (!text || !peer->tools.start(peer->tools.ctx, call, text, arguments)) {
        refuse_unknown(call, json_string_value(name));
    }
}
