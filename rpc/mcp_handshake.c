/* The revisions 2024-11-05 to 2025-11-25: one initialize for the process, then requests that rely on
 * it. notifications/initialized is never required, and a second initialize replaces the first. */
#include <stdint.h>
#include <string.h>

#include "rpc/mcp.h"

static const char *const versions[MCP_VERSION_COUNT] = {
    [MCP_VERSION_2024_11_05] = "2024-11-05",
    [MCP_VERSION_2025_03_26] = "2025-03-26",
    [MCP_VERSION_2025_06_18] = "2025-06-18",
    [MCP_VERSION_2025_11_25] = "2025-11-25",
};

static void initialize(struct rpc_peer *peer, struct rpc_request *request)
{
    const char *wanted = json_string_value(json_object_get(request->params, "protocolVersion"));
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
    json_t *result = mcp_greeting(peer);
    if (result && (json_object_set_new(result, "protocolVersion", json_string(versions[version])) ||
                   json_object_set_new(result, "serverInfo", mcp_server_info(peer)))) {
        json_decref(result);
        result = NULL;
    }
    if (result) {
        peer->version = version;
        peer->greeted = true;
    }
    peer_answer(peer, request, result, /* cacheable= */ false);
}

static void ping(struct rpc_peer *peer, struct rpc_request *request)
{
    peer_answer(peer, request, json_object(), /* cacheable= */ false);
}

static int handshake_complete(const struct rpc_peer *, json_t *, bool)
{
    return 0;
}

static bool handshake_has_structured_content(const struct rpc_peer *peer)
{
    return peer->version >= MCP_VERSION_2025_06_18;
}

static const struct rpc_method methods[] = {
    {"tools/call", mcp_tools_call},
    {"tools/list", mcp_tools_list},
    {"ping", ping},
    {"initialize", initialize},
    {},
};

static const struct mcp_era era = {
    .methods = methods,
    .complete = handshake_complete,
    .has_structured_content = handshake_has_structured_content,
};

/* Whether meta has a key of the later generation: its sender forgot the version. */
static bool has_client_key(const json_t *meta)
{
    static const char prefix[] = MCP_META_PREFIX "client";
    json_t *object = (json_t *)(uintptr_t)meta; /* jansson's iterators want no const */
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
    if (has_client_key(meta)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS,
                    "Invalid _meta: " MCP_META_VERSION " is required", NULL);
        return false;
    }
    if (peer->version == MCP_VERSION_NONE && strcmp(request->method, "initialize") != 0 &&
        strcmp(request->method, "ping") != 0) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS,
                    "Request lacks _meta (2026-07-28) and no initialize was received "
                    "(2025-11-25 and before)",
                    NULL);
        return false;
    }
    return true;
}
