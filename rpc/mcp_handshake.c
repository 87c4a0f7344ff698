/* The revisions 2024-11-05 to 2025-11-25: one initialize for the process, then requests that
 * rely on it. notifications/initialized is never required, and a second initialize replaces the
 * first. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "rpc/elicitation.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

static const char *const versions[MCP_VERSION_COUNT] = {
    [MCP_VERSION_2024_11_05] = "2024-11-05",
    [MCP_VERSION_2025_03_26] = "2025-03-26",
    [MCP_VERSION_2025_06_18] = "2025-06-18",
    [MCP_VERSION_2025_11_25] = "2025-11-25",
};

static void initialize(struct rpc_peer *peer, struct rpc_request *request)
{
    const char *wanted = rpc_text_plain(json_object_get(request->params, "protocolVersion"));
    enum mcp_version version = MCP_VERSION_2025_11_25; /* the latest of this generation */
    if (request->batch) {
        peer_refuse(peer, request, RPC_INVALID_REQUEST,
                    "Invalid request: initialize must not be part of a batch", NULL);
        return;
    }
    for (unsigned i = MCP_VERSION_NONE + 1; wanted && i < MCP_VERSION_COUNT; i++) {
        if (strcmp(versions[i], wanted) == 0) {
            version = (enum mcp_version)i;
        }
    }
    const json_t *capabilities = json_object_get(request->params, "capabilities");
    bool has_ui = mcp_ui_declared(peer, capabilities);
    json_t *result = mcp_greeting(peer, has_ui, /* has_tasks= */ false);
    if (result && (json_object_set_new(result, "protocolVersion", json_string(versions[version])) ||
                   json_object_set_new(result, "serverInfo", mcp_server_info(peer)))) {
        json_decref(result);
        result = NULL;
    }
    if (result) {
        peer->version = version;
        peer->can_elicit =
            version >= MCP_VERSION_2025_06_18 && elicitation_is_declared(capabilities);
        peer->has_ui = has_ui;
        peer->greeted = true;
    }
    peer_respond(peer, request, result, MCP_KEEP_UNSAID);
}

static void ping(struct rpc_peer *peer, struct rpc_request *request)
{
    peer_respond(peer, request, json_object(), MCP_KEEP_UNSAID);
}

static void handshake_elicitation_expired(void *arg)
{
    struct rpc_call *call = arg;
    (void)elicitation_give_up(call->peer, call);
}

/* Sends a request of ours to the client, while the call waits. */
static void handshake_elicit(struct rpc_call *call, const struct rpc_elicitation *elicitation,
                             rpc_elicitation_fn fn, void *arg)
{
    struct rpc_peer *peer = call->peer;
    size_t before = buf_size(&peer->out);
    char id[32];
    (void)snprintf(id, sizeof id, "ask-%u", ++peer->elicitations);
    json_auto_t *name = json_string(id);
    json_auto_t *request = elicitation_request(elicitation);
    if (!name || !request || json_object_set(request, "id", name) < 0 ||
        json_object_set_new(request, "jsonrpc", json_string("2.0")) < 0 ||
        rpc_text_dump(&peer->out, request) < 0 || buf_append(&peer->out, "\n", 1) < 0) {
        buf_cut(&peer->out, before);
        fn(arg, RPC_ELICITATION_NONE, NULL);
        return;
    }
    call->elicitation.id = take_ptr(name);
    call->elicitation.fn = fn;
    call->elicitation.arg = arg;
    loop_timer_in(peer->loop, &call->elicitation.timer, LIMIT_ELICITATION_MS,
                  handshake_elicitation_expired, call);
    peer->written(peer->arg);
}

static const struct rpc_method methods[] = {
    {"tools/call", mcp_tools_call},
    {"tools/list", mcp_tools_list},
    {"resources/list", mcp_resources_list},
    {"resources/templates/list", mcp_resources_templates},
    {"resources/read", mcp_resources_read},
    {"ping", ping},
    {"initialize", initialize},
    {},
};

static const struct mcp_era era = {
    .methods = methods,
    .not_found = RPC_RESOURCE_NOT_FOUND,
    .elicits_meanwhile = true,
    .elicit = handshake_elicit,
};

/* Whether meta has a key of the later generation: its sender forgot the version. */
static bool has_client_key(const json_t *meta)
{
    static const char prefix[] = MCP_META_PREFIX "client";
    json_t *object = (json_t *)(uintptr_t)meta; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (object, key, value) {
        if (strncmp(key, prefix, sizeof prefix - 1) == 0) {
            return true;
        }
    }
    return false;
}

bool mcp_handshake_admit(struct rpc_peer *peer, struct rpc_request *request, const json_t *meta)
{
    request->context.era = &era;
    request->context.can_elicit = peer->can_elicit;
    request->context.has_ui = peer->has_ui;
    request->context.has_structured = peer->version >= MCP_VERSION_2025_06_18;
    if (has_client_key(meta)) {
        return peer_refuse(peer, request, RPC_INVALID_PARAMS,
                           "Invalid _meta: " MCP_META_VERSION " is required", NULL);
    }
    if (peer->version == MCP_VERSION_NONE && strcmp(request->method, "initialize") != 0 &&
        strcmp(request->method, "ping") != 0) {
        return peer_refuse(
            peer, request, RPC_INVALID_PARAMS,
            "Request lacks _meta (2026-07-28) and no initialize was received (2025-11-25 "
            "and earlier)",
            NULL);
    }
    return true;
}
