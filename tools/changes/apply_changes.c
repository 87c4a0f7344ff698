#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "tools/box/overflow.h"
#include "tools/changes/op.h"
#include "tools/changes/text.h"
#include "tools/content/content.h"
#include "tools/session/session.h"

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
