#pragma once
#include "base/loop.h"
#include "sandbox/sandbox.h"
#include "tools/servers/grants.h"
#include "tools/servers/tool_calls.h"

/* The programs of --tools: started when they are first needed, outside of any sandbox, and started
 * again after they have exited. */

struct tool_servers;
struct tool_server;

/* Waits for a server that runs and whose tools are known. Embedded, starts zeroed. */
struct tool_waiter {
    struct tool_waiter *next;
    struct tool_server *server; /* NULL: does not wait */
    void (*fn)(void *arg, const char *why);
    void *arg;
};

/* All are borrowed. version: of Sandpiper. 0 or -ENOMEM. */
int tool_servers_new(struct loop *loop, const struct box_spec *spec, struct tools_file *file,
                     const char *version, struct tool_servers **ret_servers);
/* Ends all of them, with what they have started. */
void tool_servers_free(struct tool_servers *servers);

/* asker: borrowed. Without one, nothing is asked. */
void tool_servers_set_asker(struct tool_servers *servers, const struct cell_asker *asker);
const struct cell_asker *tool_servers_asker(const struct tool_servers *servers);

struct tools_file *tool_servers_file(const struct tool_servers *servers);
struct tool_server *tool_servers_find(struct tool_servers *servers, const char *name);

struct tool_entry *tool_server_entry(const struct tool_server *server);

/* Starts the server unless it runs. fn: called once, maybe before this returns; why: NULL, or a
 * sentence without the server's name: "exited with status 1". */
void tool_server_want(struct tool_server *server, struct tool_waiter *waiter,
                      void (*fn)(void *arg, const char *why), void *arg);
void tool_server_forget(struct tool_waiter *waiter);

/* Its tools as it lists them, of those that are usable: name → tool, whose inputSchema is an
 * object; what of that arguments are checked against is in TOOL_CHECKED. Borrowed until the loop's
 * next turn; NULL: not known. */
#define TOOL_CHECKED "sandpiper.checked"
json_t *tool_server_tools(const struct tool_server *server);
bool tool_only_reads(const json_t *tool);

/* Sends the call when its turn comes; the server must be wanted and known. */
void tool_server_add(struct tool_server *server, struct tool_call *call);
