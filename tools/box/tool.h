#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/fail.h"
#include "sandbox/sandbox.h"
#include "tools/tools.h"

struct cell_elicitations;
struct consents;
struct egress_consent;
struct installs;
struct jobs;
struct orders;
struct sessions;
struct tool_servers;
struct views;
struct buf;
struct server_box;

/* Internal to this module: what a tool's file needs and offers. */

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

/* The sandbox of this server. Starts when it is first needed, and again after it has died. */

/* Called once: box is ready, or NULL with the reason. */
typedef void (*server_box_fn)(void *arg, struct box *box, const struct fail *why);

struct server_box_waiter {
    struct server_box_waiter *next;
    struct server_box *server_box; /* NULL: not waiting */
    unsigned round;                /* of calls, in which it began to wait */
    server_box_fn fn;
    void *arg;
};

/* spec: borrowed. on_refused: called for each connection that the egress proxy refuses; may be
 * NULL. 0 or -ENOMEM. */
int server_box_new(struct loop *loop, const struct box_spec *spec, egress_event_fn on_refused,
                   void *arg, struct server_box **ret_server_box);
void server_box_free(struct server_box *server_box);
/* Whether server_box_free() is running: then a sandbox that exits is no failure. */
bool server_box_is_ending(const struct server_box *server_box);

/* Calls fn when the sandbox is ready, maybe before this returns; those that wait are called in the
 * order in which they began. */
void server_box_wait(struct server_box *server_box, struct server_box_waiter *waiter,
                     server_box_fn fn, void *arg);
void server_box_wait_cancel(struct server_box_waiter *waiter);

/* The sandbox, or NULL while none is ready. */
struct box *server_box_get(const struct server_box *server_box);

/* NULL where none can be installed. They outlive the sandbox, and installers that use them must end
 * before the sandbox does. */
struct box_packages *server_box_packages(const struct server_box *server_box);

const struct box_spec *server_box_spec(const struct server_box *server_box);

/* The protections in force, as far as they are known. */
const struct box_report *server_box_report(const struct server_box *server_box);

/* Which protected names of the user's directory were created, changed or removed since the last
 * call, as box_protected_news() names them; empty: none. */
void server_box_protected_news(struct server_box *server_box, char *text, size_t size);

/* For the first result only: appends what in the user's directory is not as --workspace promises,
 * or surprises code. */
void server_box_protection(struct server_box *server_box, struct buf *text);

/* Opens a file as box_file_open() does. fn is called once, maybe before this returns: also where
 * there is no sandbox. */
void server_box_open_file(struct server_box *server_box, const char *path, init_client_fn fn,
                          void *arg);
