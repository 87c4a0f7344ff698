#pragma once
#include <jansson.h>

#include "tools/consent.h"
#include "tools/host_consent.h"
#include "tools/session.h"
#include "tools/tools.h"
#include "tools/workspace.h"

/* Inside of the room: what a tool's file needs and offers. */

struct tools {
    struct loop *loop;
    struct tools_config config;
    struct workspace *workspace;
    struct sessions *sessions;
    struct consents consents;
    struct host_consent hosts;
    struct installs *installs; /* NULL: without install_package */
    struct box_python python;  /* once python_seen */
    bool python_seen;
    unsigned gaps_told; /* bits 1 << layer of what the host has heard to be weaker */
};

/* What a call that can be cancelled leaves with it (rpc_call_set_data): the first member of the tool's
 * own. cancel: the host does not want the answer any more. Calls of the other tools end soon by
 * themselves. */
struct tool_work {
    void (*cancel)(struct tool_work *work);
};

/* Whether there is a tool of this name, as the flags are. */
bool tools_offers(const struct tools *tools, const char *name);

/* Calls get validated arguments, borrowed until they return, and end the call. */
void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void read_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void write_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void install_package_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);

/* What a host is told of the tools and of the server: new, NULL when there is no memory. ctx: struct tools. */
json_t *describe_tools(void *ctx);
json_t *describe_server(void *ctx);

/* The workspace's files as resources. */
extern const struct rpc_resources workspace_resources;
void resource_list(void *ctx, struct rpc_call *call, const char *cursor);
