#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/changes/op.h"
#include "tools/changes/text.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"

struct list_op {
    struct changes_op op;
    bool diff;
    char patch_path[LIMIT_PATH_BYTES];
};

static int read_patch(void *arg, uint64_t at, size_t size, struct buf *out)
{
    return content_read(*(const int *)arg, at, size, out);
}

static void listed(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct list_op *list = arg;
    struct changes_op *op = &list->op;
    OWNED(buf_done) struct buf records = BUF_EMPTY;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int error = box_changes_read(reply, fds, &records);
    struct changes_view view = {.records = buf_bytes(&records),
                                .size = buf_size(&records),
                                .paths = &op->paths,
                                .rules = &op->rules,
                                .patch_path = list->patch_path,
                                .unshown = op->tools->unshown_changes};
    if (error || !op->call) {
        changes_text_none(&view);
        changes_op_fail(op, error);
        return;
    }
    bool diff = list->diff && view.size > 0;
    int r = !diff         ? changes_text_list(&view, &text)
            : fds[1] >= 0 ? changes_text_patch(&view, read_patch, &fds[1], &text)
                          : -EPROTO;
    if (r < 0) {
        changes_text_none(&view);
    } else if (rpc_call_wants_view(op->call)) {
        json_t *parts = changes_text_parts(&view, read_patch, &fds[1]);
        rpc_call_set_meta(op->call, VIEW_META, views_keep_parts(op->tools->views, parts));
    }
    changes_op_result(op, r, &text, /* is_error= */ false);
}

static int list_begin(struct changes_op *op, struct box *box)
{
    struct list_op *list = (struct list_op *)op;
    bool patch = list->diff || rpc_call_wants_view(op->call);
    return box_changes_ask(box, patch ? BOX_CHANGES_PATCH : BOX_CHANGES_LIST,
                           (struct path_list){(const char *const *)op->paths.at, op->paths.count},
                           listed, list);
}

void list_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const struct box_spec *spec = tools->config.spec;
    struct list_op *list = (struct list_op *)changes_op_new(tools, call, sizeof *list);
    if (!list) {
        return;
    }
    list->op.begin = list_begin;
    list->diff = json_is_true(json_object_get(arguments, "diff"));
    (void)snprintf(list->patch_path, sizeof list->patch_path, "%s/%s", spec->paths.output,
                   CHANGE_PATCH_NAME);
    box_changes_find_rules(spec, &list->op.rules);
    changes_op_begin(&list->op, arguments);
}
