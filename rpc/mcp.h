#pragma once
#include "rpc/peer.h"

/* The lifecycle of the two generations of MCP, and what both share. Private to rpc.
 * A message whose params._meta has MCP_META_VERSION belongs to 2026-07-28 and is checked alone; all
 * others belong to the generation that starts with initialize. */

#define MCP_META_PREFIX "io.modelcontextprotocol/"
#define MCP_META_VERSION MCP_META_PREFIX "protocolVersion"
#define MCP_STATELESS_VERSION "2026-07-28"
#define MCP_META_CAPABILITIES MCP_META_PREFIX "clientCapabilities"
#define MCP_META_SERVER MCP_META_PREFIX "serverInfo"
#define MCP_META_SUBSCRIPTION MCP_META_PREFIX "subscriptionId"
#define MCP_EXTENSION_TASKS MCP_META_PREFIX "tasks"
#define MCP_EXTENSION_UI MCP_META_PREFIX "ui"

/* Each sets the request's era and returns whether the request may go on; if not, has refused it. */
bool mcp_handshake_admit(struct rpc_peer *peer, struct rpc_request *request, const json_t *meta);
bool mcp_discover_admit(struct rpc_peer *peer, struct rpc_request *request, const json_t *meta);

/* Responds to the open listen requests as the connection ends. */
void mcp_discover_finish(struct rpc_peer *peer);

/* New: {"name", "title", "version"}, or NULL when out of memory. */
json_t *mcp_server_info(const struct rpc_peer *peer);
/* New: the first response to a client, with capabilities and instructions. has_ui: the client
 * shows views. has_tasks: calls may go on as tasks. */
json_t *mcp_greeting(const struct rpc_peer *peer, bool has_ui, bool has_tasks);

/* Of a list of one page: whether the request asks for it, with no cursor; if not, has refused it.
 */
bool mcp_is_first_page(struct rpc_peer *peer, struct rpc_request *request);

/* Whether the server has views, and a client's capabilities declare that it shows them. */
bool mcp_ui_declared(const struct rpc_peer *peer, const json_t *capabilities);

/* The request as a call that stays open; NULL: it was refused. */
struct rpc_call *mcp_hold(struct rpc_peer *peer, struct rpc_request *request);

/* Methods that do not exist where tools has no resources, for a client that shows no views; but
 * each client may read a view. */
void mcp_resources_list(struct rpc_peer *peer, struct rpc_request *request);
void mcp_resources_templates(struct rpc_peer *peer, struct rpc_request *request);
void mcp_resources_read(struct rpc_peer *peer, struct rpc_request *request);

/* Whether a client's capabilities declare tasks. */
bool mcp_tasks_declared(const json_t *capabilities);
/* Whether the request does not declare them; if so, has refused it. */
bool mcp_tasks_missing(struct rpc_peer *peer, struct rpc_request *request);

/* Methods that do not exist where tools has no tasks. */
void mcp_tasks_get(struct rpc_peer *peer, struct rpc_request *request);
void mcp_tasks_cancel(struct rpc_peer *peer, struct rpc_request *request);
void mcp_tasks_update(struct rpc_peer *peer, struct rpc_request *request);

void mcp_tools_list(struct rpc_peer *peer, struct rpc_request *request);
void mcp_tools_call(struct rpc_peer *peer, struct rpc_request *request);
