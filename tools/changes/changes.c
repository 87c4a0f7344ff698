#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/overflow.h"
#include "tools/box/tool.h"
#include "tools/changes/paths.h"
#include "tools/changes/text.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/files/listing.h"
#include "tools/session/session.h"

/* A call about changes, from its arguments to its result. The first member of a tool's own. */
struct changes_op {
    struct tool_work work;
    struct tools *tools;
    struct rpc_call *call; /* NULL: cancelled; the work is finished all the same */
    struct server_box_waiter waiter;
    struct changes_paths paths;
    struct refused_rules rules;  /* empty unless the tool finds them */
    unsigned processes;          /* that run */
    size_t spelled;              /* of the paths: whose spelling is known */
    char path[LIMIT_PATH_BYTES]; /* the next of them, as it is there so far */
    struct not_found not_found;
    /* Does the tool's work in the sandbox. 0, or -errno, which ends the call. */
    int (*begin)(struct changes_op *op, struct box *box);
    void (*done)(struct changes_op *op); /* releases what the tool's own has; NULL: nothing */
};

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

static void changes_op_free(struct changes_op *op)
{
    server_box_wait_cancel(&op->waiter);
    changes_paths_done(&op->paths);
    refused_rules_done(&op->rules);
    if (op->done) {
        op->done(op);
    }
    free(op);
}

/* Ends the call, unless it is cancelled, for the reason of an errno value. */
static void changes_op_fail(struct changes_op *op, int error)
{
    if (op->call) {
        fail_call(op->call, error);
    }
    changes_op_free(op);
}

/* Ends the call with text, unless making it failed with r. */
static void changes_op_result(struct changes_op *op, int r, struct buf *text, bool is_error)
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

/* size: of the tool's own, which is zero otherwise. NULL: out of memory; the call has ended. */
static struct changes_op *changes_op_new(struct tools *tools, struct rpc_call *call, size_t size)
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

static void path_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS]);

/* Each path is that of a name with the same characters, however they are composed; then
 * op->begin(). */
static void op_spell(struct changes_op *op)
{
    if (op->spelled < op->paths.count) {
        op->not_found = (struct not_found){};
        (void)snprintf(op->path, sizeof op->path, "%s", op->paths.at[op->spelled]);
        server_box_open_file(op->tools->server_box, op->path[0] ? op->path : ".", path_opened, op);
        return;
    }
    struct box *box = server_box_get(op->tools->server_box);
    int r = box && op->call ? op->begin(op, box) : -ECONNRESET;
    if (r < 0) {
        changes_op_fail(op, -r);
    }
}

static void path_is_known(struct changes_op *op)
{
    char *path = strdup(op->path);
    if (path) { /* else it stays as it was sent */
        free(op->paths.at[op->spelled]);
        op->paths.at[op->spelled] = path;
    }
    op->spelled++;
    op_spell(op);
}

static void path_looked_up(void *arg, int error, const struct buf *text)
{
    struct changes_op *op = arg;
    if (error || text) {
        path_is_known(op);
    } else {
        server_box_open_file(op->tools->server_box, op->path, path_opened, op);
    }
}

static void path_opened(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct changes_op *op = arg;
    if (reply->error == ENOENT) {
        not_found_respell(&op->not_found, op->tools, op->path, path_looked_up, op);
    } else {
        path_is_known(op);
    }
}

static void op_counted(void *arg, const struct wire_reply *reply, int[WIRE_FDS])
{
    struct changes_op *op = arg;
    op->processes = (reply->error ? 0 : reply->processes) + sessions_running(op->tools->sessions);
    op_spell(op);
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

/* Takes the argument "paths", waits for the sandbox and counts its processes; then op->begin(). */
static void changes_op_begin(struct changes_op *op, const json_t *arguments)
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

/* An apply or a discard. */
struct apply_op {
    struct changes_op op;
    bool discard;
    int error;          /* of the apply */
    struct buf journal; /* copy of the chosen items, or empty */
    struct buf records; /* of a discard */
    struct changes_applied applied;
    struct changes_end end;
};

static void apply_done(struct changes_op *op)
{
    struct apply_op *apply = (struct apply_op *)op;
    changes_applied_done(&apply->applied);
    buf_done(&apply->journal);
    buf_done(&apply->records);
}

static void apply_result(struct apply_op *apply, int r, struct buf *text)
{
    changes_op_result(&apply->op, r, text, apply->end.is_error || apply->error);
}

/* path: of the file that has all lines, or NULL. */
static void lines_saved(void *arg, const char *path, uint64_t)
{
    struct apply_op *apply = arg;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (!apply->op.call) {
        changes_op_free(&apply->op);
        return;
    }
    apply->end.path = path;
    apply_result(apply, changes_text_applied(&apply->applied, &apply->op.paths, &apply->end, &text),
                 &text);
}

/* What does not fit goes to a file: all that is applied is named. */
static void save_lines(struct apply_op *apply)
{
    OWNED(buf_done) struct buf whole = BUF_EMPTY;
    int r = changes_text_applied_whole(&apply->applied, &apply->op.paths, &whole);
    struct overflow *overflow = r < 0
                                    ? NULL
                                    : overflow_begin(sessions_overflows(apply->op.tools->sessions),
                                                     "applied", 0, &whole, NULL, NULL);
    overflow_finish(overflow, lines_saved, apply);
}

/* Ends the call. left: changes that are still there. */
static void apply_end(struct apply_op *apply, size_t left)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = 0;
    if (!apply->op.call) {
        changes_op_free(&apply->op);
        return;
    }
    apply->end.left = left;
    if (apply->discard) {
        const struct changes_view view = {.records = buf_bytes(&apply->records),
                                          .size = buf_size(&apply->records),
                                          .paths = &apply->op.paths};
        r = changes_text_discarded(&view, &apply->end, &text);
    } else {
        apply->applied.journal =
            buf_size(&apply->journal) > 0 ? (const void *)buf_bytes(&apply->journal) : NULL;
        apply->applied.unshown = apply->op.tools->unshown_changes;
        r = changes_text_applied(&apply->applied, &apply->op.paths, &apply->end, &text);
        if (r == 0 && apply->end.is_cut) {
            save_lines(apply);
            return;
        }
    }
    apply_result(apply, r, &text);
}

static void left_listed(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    OWNED(buf_done) struct buf left = BUF_EMPTY;
    bool is_known = box_changes_read(reply, fds, &left) == 0;
    apply_end(arg, is_known ? changes_count(buf_bytes(&left), buf_size(&left)) : SIZE_MAX);
}

/* The work is done: asks for what is left. error: an errno value. */
static void ask_left(struct apply_op *apply, int error)
{
    struct box *box = server_box_get(apply->op.tools->server_box);
    if (error) {
        changes_op_fail(&apply->op, error);
        return;
    }
    if (!apply->op.call || !box ||
        box_changes_ask(box, BOX_CHANGES_COUNT, (struct path_list){}, left_listed, apply) < 0) {
        apply_end(apply, SIZE_MAX);
    }
}

static void discarded(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct apply_op *apply = arg;
    ask_left(apply, box_changes_read(reply, fds, &apply->records));
}

static enum box_apply_choice choose(void *arg, const struct apply_item *item)
{
    struct apply_op *apply = arg;
    struct refused refused;
    if (!changes_paths_have(&apply->op.paths, item->path)) {
        return BOX_APPLY_LEAVE;
    }
    size_t size = 0;
    enum changes_left why =
        changes_paths_left(&apply->op.paths, item->path,
                           item->source.mode ? item->source.mode : item->before.mode, &size);
    if (why != CHANGES_LEFT_NONE) {
        apply->end.cached += why == CHANGES_LEFT_CACHE && !(item->marks & APPLY_IMPLIED);
        apply->end.ignored += why == CHANGES_LEFT_IGNORED && !(item->marks & APPLY_IMPLIED);
        return BOX_APPLY_CACHE;
    }
    bool is_refused =
        refused_find(&apply->op.rules, item->path, item->marks & APPLY_BARE,
                     (const char *const *)apply->op.paths.at, apply->op.paths.count, &refused);
    if (!is_refused && item->marks & APPLY_TORN) {
        refused = (struct refused){CHANGES_TORN, apply_path_git_size(item->path)};
        is_refused = true;
    }
    if (is_refused) {
        /* Without memory for the note the item is not applied, and left shows it. */
        if (!(item->marks & APPLY_IMPLIED)) {
            (void)changes_refuse(&apply->applied, item->path, &refused);
        }
        return BOX_APPLY_REFUSE;
    }
    return BOX_APPLY_TAKE;
}

static void applied(void *arg, int error, const struct apply_journal *journal)
{
    struct apply_op *apply = arg;
    apply->error = error;
    ask_left(apply, journal ? -buf_append(&apply->journal, journal, journal->size) : error);
}

static int apply_begin(struct changes_op *op, struct box *box)
{
    struct apply_op *apply = (struct apply_op *)op;
    const struct path_list paths = {(const char *const *)op->paths.at, op->paths.count};
    return apply->discard ? box_changes_ask(box, BOX_CHANGES_DISCARD, paths, discarded, apply)
                          : box_changes_apply(box, paths, choose, applied, apply);
}

void apply_changes_call(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    struct apply_op *apply = (struct apply_op *)changes_op_new(tools, call, sizeof *apply);
    if (!apply) {
        return;
    }
    apply->op.begin = apply_begin;
    apply->op.done = apply_done;
    apply->discard = json_is_true(json_object_get(arguments, "discard"));
    if (!apply->discard) {
        box_changes_find_rules(tools->config.spec, &apply->op.rules);
    }
    changes_op_begin(&apply->op, arguments);
}

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
