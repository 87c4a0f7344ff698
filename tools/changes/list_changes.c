#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"
#include "tools/changes/failure.h"
#include "tools/changes/paths.h"
#include "tools/changes/text.h"
#include "tools/content/content.h"
#include "tools/session/session.h"

/* One list, from the call to its result. */
struct list_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call; /* NULL: cancelled; the response is awaited all the same */
    struct server_box_waiter waiter;
    struct changes_paths paths;
    bool diff;
    unsigned processes; /* that run */
    struct refused_rules rules;
    char patch_path[LIMIT_PATH_BYTES];
};

static void list_op_free(struct list_op *op)
{
    server_box_wait_cancel(&op->waiter);
    changes_paths_done(&op->paths);
    refused_rules_done(&op->rules);
    free(op);
}

static void list_op_fail(struct list_op *op, int error)
{
    if (op->call) {
        changes_fail(op->call, error);
    }
    list_op_free(op);
}

static void list_op_cancel(struct tool_work *work)
{
    struct list_op *op = (struct list_op *)work;
    if (op->waiter.server_box) {
        list_op_fail(op, ECANCELED);
        return;
    }
    struct rpc_call *call = take_ptr(op->call);
    rpc_call_set_data(call, NULL);
    changes_fail(call, ECANCELED);
}

static int read_patch(void *arg, uint64_t at, size_t size, struct buf *out)
{
    return content_read(*(const int *)arg, at, size, out);
}

static void listed(void *arg, int error, const void *records, size_t size, int patch_fd)
{
    struct list_op *op = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    struct changes_view view = {.records = records,
                                .size = size,
                                .paths = &op->paths,
                                .rules = &op->rules,
                                .patch_path = op->patch_path,
                                .unshown = op->tools->unshown_changes};
    if (error || !op->call) {
        changes_text_none(&view);
        list_op_fail(op, error);
        return;
    }
    bool diff = op->diff && size > 0;
    int r = !diff           ? changes_text_list(&view, &text)
            : patch_fd >= 0 ? changes_text_patch(&view, read_patch, &patch_fd, &text)
                            : -EPROTO;
    r = r ? r : changes_text_running(op->processes, &text);
    if (r < 0) {
        changes_text_none(&view);
        list_op_fail(op, -r);
        return;
    }
    content_result(op->call, buf_bytes(&text), buf_size(&text), false);
    list_op_free(op);
}

static void list_op_counted(void *arg, unsigned processes)
{
    struct list_op *op = arg;
    struct box *box = server_box_get(op->tools->server_box);
    op->processes = processes + sessions_running(op->tools->sessions);
    int r = !box ? -ECONNRESET
                 : box_changes_ask(box, op->diff ? BOX_CHANGES_PATCH : BOX_CHANGES_LIST,
                                   (const char *const *)op->paths.at, op->paths.count, listed, op);
    if (r < 0) {
        list_op_fail(op, -r);
    }
}

static void list_op_begin(void *arg, struct box *box, const struct fail *why)
{
    struct list_op *op = arg;
    if (!box) {
        content_no_sandbox(op->call, why);
        list_op_free(op);
        return;
    }
    int r = box_count_processes(box, list_op_counted, op);
    if (r < 0) {
        list_op_fail(op, -r);
    }
}

void list_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const struct box_spec *spec = tools->config.spec;
    OWNED(buf_done) struct buf why = BUF_EMPTY;
    struct list_op *op = calloc(1, sizeof *op);
    if (!op) {
        changes_fail(call, ENOMEM);
        return;
    }
    op->work.cancel = list_op_cancel;
    op->tools = tools;
    op->call = call;
    box_changes_find_rules(spec, &op->rules);
    op->diff = json_is_true(json_object_get(arguments, "diff"));
    (void)snprintf(op->patch_path, sizeof op->patch_path, "%s/%s", spec->paths.output,
                   CHANGE_PATCH_NAME);
    rpc_call_set_data(call, op);
    int r = changes_paths_take(spec, json_object_get(arguments, "paths"), &op->paths, &why);
    if (r == -EINVAL) {
        content_result(call, buf_bytes(&why), buf_size(&why), true);
        list_op_free(op);
    } else if (r < 0) {
        list_op_fail(op, -r);
    } else {
        server_box_wait(tools->server_box, &op->waiter, list_op_begin, op);
    }
}
