#pragma once
#include "base/loop.h"
#include "tools/servers/tool_calls.h"

/* --tools: asks the user, through the client, what a cell waits for: whether a call of a tool may
 * leave, and what a tool server wants to know. One at a time. Clients of MCP 2026-07-28 can be
 * asked only by ending the call, and code that ran cannot be run again: the cell becomes a job that
 * waits, and the call that the client makes again with the user's response waits for that job. */

struct rpc_call;
struct tools;

/* Starts zeroed. */
struct cell_elicitations {
    struct cell_asker asker;
    struct cell_elicitation *list; /* in their order */
    struct cell_elicitation *now;  /* that is being asked through call; NULL: none is */
    struct rpc_call *call;
    unsigned asked; /* so far: numbers them */
    struct loop_task next;
};

/* A call waits for a job. */
void cell_elicitations_call_waits(struct tools *tools, const struct run *run);
/* A call about the task of a run, which may have responses of the user's. */
void cell_elicitations_polled(struct tools *tools, const struct run *run, struct rpc_call *call);

void cell_elicitations_init(struct tools *tools);
void cell_elicitations_done(struct tools *tools);
