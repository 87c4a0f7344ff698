#pragma once
#include "base/loop.h"
#include "rpc/scan.h"
#include "sandbox/sandbox.h"
#include "tools/servers/cell_elicitation.h"
#include "tools/servers/grants.h"

/* The programs of --tools: started when they are first needed, outside of any sandbox, and started
 * again after they have exited. */

struct tool_servers;
struct tool_server;

enum tool_outcome {
    TOOL_RESULT,  /* text: its JSON */
    TOOL_ERROR,   /* the server has refused the call; text: its message, of any kind */
    TOOL_NOTHING, /* there will be no response; text: why, a clause about the server */
};

/* A call at a server. Embedded; zeroed but for the members that its owner sets. */
struct tool_call {
    struct tool_call *next;
    struct tool_server *server;
    const char *tool;
    json_t *arguments;  /* owned by the owner, as is the name */
    struct run *run;    /* that calls it */
    uint32_t session;   /* of the run */
    unsigned *refusals; /* of the user's in that run, borrowed */
    unsigned request;   /* 0: it has not left */
    /* The call's turn has come. False: it must not leave; it has been ended, or freed. */
    bool (*leave)(struct tool_call *call);
    /* It has ended, and may be freed. Not called after tool_server_drop(). */
    void (*done)(struct tool_call *call, enum tool_outcome outcome, struct span text);
};

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
/* Nobody waits for it any more. */
void tool_server_drop(struct tool_call *call);
