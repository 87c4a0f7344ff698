#include "tools/changes/op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/changes/text.h"
#include "tools/content/content.h"
#include "tools/session/session.h"

static void fail_call(struct rpc_call *call, int error)
{
    static const char moved[] =
        "The user's directory is no longer where it was when the server "
        "started; nothing was applied.";
    static const struct {
        int error;
        const char *sentence;
    } rows[] = {
        {ECONNRESET, "The sandbox exited meanwhile; see list_changes for what is left."},
        {ECANCELED, "The call was cancelled; see list_changes for what is left."},
        {E2BIG,
         "There are too many changes to list or apply them: remove what is not needed in "
         "/work."},
        {ELOOP, moved},
        {ENOENT, moved},
        {ENOTDIR, moved},
    };
    if (error == ENOMEM) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "out of memory");
        return;
    }
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].error == error) {
            content_refuse(call, "%s", rows[i].sentence);
            return;
        }
    }
    content_refuse(call, "The changes are not accessible: %s.", strerror(error));
}

void changes_op_free(struct changes_op *op)
{
    server_box_wait_cancel(&op->waiter);
    changes_paths_done(&op->paths);
    refused_rules_done(&op->rules);
    if (op->done) {
        op->done(op);
    }
    free(op);
}

void changes_op_fail(struct changes_op *op, int error)
{
    if (op->call) {
        fail_call(op->call, error);
    }
    changes_op_free(op);
}

void changes_op_result(struct changes_op *op, int r, struct buf *text, bool is_error)
{
    r = r ? r : changes_text_running(op->processes, text);
    if (r < 0) {
        changes_op_fail(op, -r);
        return;
    }
    content_result(op->call, buf_bytes(text), buf_size(text), is_error);
    changes_op_free(op);
}

static void op_cancel(struct tool_work *work)
{
    struct changes_op *op = (struct changes_op *)work;
    if (op->waiter.server_box) {
        changes_op_fail(op, ECANCELED);
        return;
    }
    struct rpc_call *call = take_ptr(op->call);
    rpc_call_set_data(call, NULL);
    fail_call(call, ECANCELED);
}

struct changes_op *changes_op_new(struct tools *tools, struct rpc_call *call, size_t size)
{
    struct changes_op *op = calloc(1, size);
    if (!op) {
        fail_call(call, ENOMEM);
        return NULL;
    }
    op->work.cancel = op_cancel;
    op->tools = tools;
    op->call = call;
    rpc_call_set_data(call, op);
    return op;
}

static void op_counted(void *arg, unsigned processes)
{
    struct changes_op *op = arg;
    struct box *box = server_box_get(op->tools->server_box);
    op->processes = processes + sessions_running(op->tools->sessions);
    int r = box && op->call ? op->begin(op, box) : -ECONNRESET;
    if (r < 0) {
        changes_op_fail(op, -r);
    }
}

static void op_ready(void *arg, struct box *box, const struct fail *why)
{
    struct changes_op *op = arg;
    if (!box) {
        content_no_sandbox(op->call, why);
        changes_op_free(op);
        return;
    }
    int r = box_count_processes(box, op_counted, op);
    if (r < 0) {
        changes_op_fail(op, -r);
    }
}

void changes_op_begin(struct changes_op *op, const json_t *arguments)
{
    OWNED(buf_done) struct buf why = BUF_EMPTY;
    int r = changes_paths_take(op->tools->config.spec, json_object_get(arguments, "paths"),
                               &op->paths, &why);
    if (r == -EINVAL) {
        content_result(op->call, buf_bytes(&why), buf_size(&why), true);
        changes_op_free(op);
    } else if (r < 0) {
        changes_op_fail(op, -r);
    } else {
        server_box_wait(op->tools->server_box, &op->waiter, op_ready, op);
    }
}
