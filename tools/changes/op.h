#pragma once
#include "tools/box/server_sandbox.h"
#include "tools/box/tool.h"
#include "tools/changes/paths.h"

/* A call about changes, from its arguments to its result. The first member of a tool's own. */
struct changes_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call; /* NULL: cancelled; the work is finished all the same */
    struct server_box_waiter waiter;
    struct changes_paths paths;
    struct refused_rules rules; /* empty unless the tool finds them */
    unsigned processes;         /* that run */
    /* Does the tool's work in the sandbox. 0, or -errno, which ends the call. */
    int (*begin)(struct changes_op *op, struct box *box);
    void (*done)(struct changes_op *op); /* releases what the tool's own has; NULL: nothing */
};

/* size: of the tool's own, which is zero otherwise. NULL: out of memory; the call has ended. */
struct changes_op *changes_op_new(struct tools *tools, struct rpc_call *call, size_t size);
/* Takes the argument "paths", waits for the sandbox and counts its processes; then op->begin(). */
void changes_op_begin(struct changes_op *op, const json_t *arguments);
/* Ends the call, unless it is cancelled, for the reason of an errno value. */
void changes_op_fail(struct changes_op *op, int error);
/* Ends the call with text, unless making it failed with r. */
void changes_op_result(struct changes_op *op, int r, struct buf *text, bool is_error);
void changes_op_free(struct changes_op *op);
