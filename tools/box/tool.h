#pragma once
#include <jansson.h>

#include "tools/box/server_sandbox.h"
#include "tools/tools.h"

/* Internal to this module: what a tool's file needs and offers. */

struct cell_elicitations;
struct consents;
struct egress_consent;
struct installs;
struct jobs;
struct orders;
struct sessions;
struct tool_servers;
struct views;

/* All is owned by the registry. */
struct tools {
    struct loop *loop;
    struct tools_config config;
    struct server_box *server_box;
    struct sessions *sessions;
    struct orders *orders;
    struct jobs *jobs;
    struct consents *consents;
    struct egress_consent *hosts;
    struct tool_servers *tool_servers; /* NULL: without --tools */
    struct cell_elicitations *elicitations;
    struct views *views;
    struct installs *installs; /* NULL: without install_package */
    struct box_python python;  /* once python_seen */
    bool python_seen;
    json_t *unshown_changes;    /* see struct changes_view */
    unsigned degraded_reported; /* bits 1 << protection of what the client knows to be degraded */
};

/* The first member of the data that a call which can be cancelled has (rpc_call_set_data). cancel:
 * the client has cancelled the call; of a call about files, also: the server is stopping. */
struct tool_work {
    void (*cancel)(struct tool_work *work);
};

/* Whether the flags leave a tool of this name. */
bool tools_offers(const struct tools *tools, const char *name);

/* Each gets validated arguments, borrowed until it returns, and ends the call. */
void run_python_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void read_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void write_file_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void install_package_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void list_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);
void apply_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments);

/* What a view reads by read_file: its data, and a part of a library's script. Returns false, having
 * done nothing, for any other path; else ends the call, maybe before this returns. Reads what no
 * call changes, so it has no place in the order of the calls, and none in the record. */
bool read_view(struct tools *tools, struct rpc_call *call, const json_t *arguments);

/* Whether a call of run_python only waits for a job, or stops one. */
bool run_python_is_wait(const json_t *arguments);

/* The definitions of the tools, and the server's instructions: new, NULL when out of memory. ctx:
 * struct tools. */
json_t *describe_tools(void *ctx);
json_t *describe_server(void *ctx);

/* The workspace's files as resources. */
extern const struct rpc_resources workspace_resources;
