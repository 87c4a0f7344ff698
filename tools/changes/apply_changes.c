#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/overflow.h"
#include "tools/box/tool.h"
#include "tools/changes/failure.h"
#include "tools/changes/paths.h"
#include "tools/changes/text.h"
#include "tools/content/content.h"
#include "tools/session/session.h"

/* One apply or discard, from the call to its result. */
struct apply_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call; /* NULL: cancelled; the work is finished all the same */
    struct server_box_waiter waiter;
    struct changes_paths paths;
    bool discard;
    unsigned processes; /* that run */
    struct refused_rules rules;
    int error;          /* of the apply */
    struct buf journal; /* copy of the chosen items, or empty */
    struct buf records; /* of a discard */
    struct changes_applied applied;
    struct changes_end end;
};

static void apply_op_free(struct apply_op *op)
{
    server_box_wait_cancel(&op->waiter);
    changes_paths_done(&op->paths);
    changes_applied_done(&op->applied);
    buf_done(&op->journal);
    buf_done(&op->records);
    refused_rules_done(&op->rules);
    free(op);
}

static void apply_op_fail(struct apply_op *op, int error)
{
    if (op->call) {
        changes_fail(op->call, error);
    }
    apply_op_free(op);
}

static void apply_op_cancel(struct tool_work *work)
{
    struct apply_op *op = (struct apply_op *)work;
    if (op->waiter.server_box) {
        apply_op_fail(op, ECANCELED);
        return;
    }
    struct rpc_call *call = take_ptr(op->call);
    rpc_call_set_data(call, NULL);
    changes_fail(call, ECANCELED);
}

static void apply_op_result(struct apply_op *op, int r, struct buf *text)
{
    r = r ? r : changes_text_running(op->processes, text);
    if (r < 0) {
        apply_op_fail(op, -r);
        return;
    }
    content_result(op->call, buf_bytes(text), buf_size(text), op->end.is_error || op->error);
    apply_op_free(op);
}

/* path: of the file that has all lines, or NULL. */
static void lines_saved(void *arg, const char *path, uint64_t)
{
    struct apply_op *op = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (!op->call) {
        apply_op_free(op);
        return;
    }
    op->end.path = path;
    apply_op_result(op, changes_text_applied(&op->applied, &op->paths, &op->end, &text), &text);
}

/* What does not fit goes to a file: all that is applied is named. */
static void save_lines(struct apply_op *op)
{
    OWNED(buf_done) struct buf whole = BUF_EMPTY;
    int r = changes_text_applied_whole(&op->applied, &op->paths, &whole);
    struct overflow *overflow = r < 0 ? NULL
                                      : overflow_begin(sessions_overflows(op->tools->sessions),
                                                       "applied", 0, &whole, NULL, NULL);
    overflow_finish(overflow, lines_saved, op);
}

/* Ends the call. left: changes that are still there. */
static void apply_op_end(struct apply_op *op, size_t left)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = 0;
    if (!op->call) {
        apply_op_free(op);
        return;
    }
    op->end.left = left;
    if (op->discard) {
        const struct changes_view view = {.records = buf_bytes(&op->records),
                                          .size = buf_size(&op->records),
                                          .paths = &op->paths};
        r = changes_text_discarded(&view, &op->end, &text);
    } else {
        op->applied.journal =
            buf_size(&op->journal) > 0 ? (const void *)buf_bytes(&op->journal) : NULL;
        op->applied.unshown = op->tools->unshown_changes;
        r = changes_text_applied(&op->applied, &op->paths, &op->end, &text);
        if (r == 0 && op->end.is_cut) {
            save_lines(op);
            return;
        }
    }
    apply_op_result(op, r, &text);
}

static void left_listed(void *arg, int error, const void *records, size_t size, int)
{
    apply_op_end(arg, error ? SIZE_MAX : changes_count(records, size));
}

/* The work is done: asks for what is left. */
static void ask_left(struct apply_op *op)
{
    struct box *box = server_box_get(op->tools->server_box);
    if (!op->call || !box ||
        box_changes_ask(box, BOX_CHANGES_COUNT, NULL, 0, left_listed, op) < 0) {
        apply_op_end(op, SIZE_MAX);
    }
}

static void discarded(void *arg, int error, const void *records, size_t size, int)
{
    struct apply_op *op = arg;
    int r = error ? -error : buf_append(&op->records, records, size);
    if (r < 0) {
        apply_op_fail(op, -r);
        return;
    }
    ask_left(op);
}

static bool choose(void *arg, const struct apply_item *item)
{
    struct apply_op *op = arg;
    struct refused refused;
    if (!changes_paths_have(&op->paths, item->path)) {
        return false;
    }
    bool is_refused = refused_find(&op->rules, item->path, item->marks & APPLY_BARE,
                                   (const char *const *)op->paths.at, op->paths.count, &refused);
    if (!is_refused && item->marks & APPLY_TORN) {
        refused = (struct refused){CHANGES_TORN, apply_path_git_size(item->path)};
        is_refused = true;
    }
    if (is_refused) {
        /* Without memory for the note the item is not applied, and left shows it. */
        if (!(item->marks & APPLY_IMPLIED)) {
            (void)changes_refuse(&op->applied, item->path, &refused);
        }
        return false;
    }
    return true;
}

static void applied(void *arg, int error, const struct apply_journal *journal)
{
    struct apply_op *op = arg;
    op->error = error;
    int r = journal ? buf_append(&op->journal, journal, journal->size) : -error;
    if (r < 0) {
        apply_op_fail(op, -r);
        return;
    }
    ask_left(op);
}

static void apply_op_counted(void *arg, unsigned processes)
{
    struct apply_op *op = arg;
    struct box *box = server_box_get(op->tools->server_box);
    if (!box || !op->call) {
        apply_op_fail(op, ECONNRESET);
        return;
    }
    op->processes = processes + sessions_running(op->tools->sessions);
    const char *const *paths = (const char *const *)op->paths.at;
    int r = op->discard
                ? box_changes_ask(box, BOX_CHANGES_DISCARD, paths, op->paths.count, discarded, op)
                : box_changes_apply(box, paths, op->paths.count, choose, applied, op);
    if (r < 0) {
        apply_op_fail(op, -r);
    }
}

static void apply_op_begin(void *arg, struct box *box, const struct fail *why)
{
    struct apply_op *op = arg;
    if (!box) {
        content_no_sandbox(op->call, why);
        apply_op_free(op);
        return;
    }
    int r = box_count_processes(box, apply_op_counted, op);
    if (r < 0) {
        apply_op_fail(op, -r);
    }
}

void apply_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    OWNED(buf_done) struct buf why = BUF_EMPTY;
    struct apply_op *op = calloc(1, sizeof *op);
    if (!op) {
        changes_fail(call, ENOMEM);
        return;
    }
    op->work.cancel = apply_op_cancel;
    op->tools = tools;
    op->call = call;
    op->discard = json_is_true(json_object_get(arguments, "discard"));
    if (!op->discard) {
        box_changes_find_rules(tools->config.spec, &op->rules);
    }
    rpc_call_set_data(call, op);
    int r = changes_paths_take(tools->config.spec, json_object_get(arguments, "paths"), &op->paths,
                               &why);
    if (r == -EINVAL) {
        content_result(call, buf_bytes(&why), buf_size(&why), true);
        apply_op_free(op);
    } else if (r < 0) {
        apply_op_fail(op, -r);
    } else {
        server_box_wait(tools->server_box, &op->waiter, apply_op_begin, op);
    }
}
