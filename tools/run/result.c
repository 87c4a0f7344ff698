#include "tools/run/result.h"

#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/content/resource_uri.h"
#include "tools/run/structured.h"

/* Appends links to the files that the run has created or changed. */
static void append_links(struct rpc_call *call, const struct run *run, json_t *blocks)
{
    struct run_change file = {};
    unsigned count = 0;
    while (rpc_call_wants_links(call) && count < LIMIT_RESOURCE_LINKS &&
           run_next_change(run, RUN_FILES, &file)) {
        uint64_t bytes = 0;
        bool is_file = (*file.name == '+' || *file.name == '~') && !(file.kind && *file.kind) &&
                       file.size && parse_u64(file.size, &bytes) == 0 && bytes < INT64_MAX;
        json_t *link = is_file ? resource_link(file.name + 1, bytes) : NULL;
        count += link && json_array_append_new(blocks, link) == 0;
    }
}

/* The text of a structured result is the same object, for clients that read only text. Appends it;
 * NULL: there is no memory for the object, whose text is then as for other clients. structured:
 * stolen. */
static json_t *structured_text(json_t *structured, const char *ended, struct buf *text)
{
    if (structured && ended[0]) {
        (void)json_object_set_new(structured, "ended_jobs", rpc_text(ended, strlen(ended) - 1));
    }
    if (structured && rpc_text_show(text, structured) < 0) {
        buf_clear(text, 0);
        json_decref(structured);
        structured = NULL;
    }
    return structured;
}

static json_t *first_block(const struct buf *text)
{
    return content_text(buf_bytes(text), buf_size(text));
}

void result_send(struct rpc_call *call, const struct run *run, const json_t *images,
                 const char *ended)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_t *structured = NULL;
    json_t *blocks = images ? json_copy((json_t *)(uintptr_t)images) : NULL;
    if (rpc_call_wants_structured(call)) {
        structured =
            structured_text(structured_run(run, json_array_size(images) > 0), ended, &text);
    }
    if (!blocks ||
        (!structured && (buf_append_text(&text, ended) < 0 || run_compose(run, &text) < 0)) ||
        json_array_insert_new(blocks, 0, first_block(&text)) < 0) {
        json_decref(blocks);
        blocks = NULL; /* the result is an error */
    }
    if (blocks) {
        append_links(call, run, blocks);
    }
    rpc_call_set_meta(call, "sandpiper/result", structured_value(run));
    if (rpc_call_wants_view(call)) {
        rpc_call_set_meta(call, VIEW_META, structured_view(run, json_array_size(images) > 0));
    }
    rpc_call_result(call, blocks, structured, run_is_error(run));
}

void result_send_running(struct rpc_call *call, const struct run *run, const struct output *printed,
                         const char *status, const char *ended)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_t *structured = NULL;
    if (rpc_call_wants_structured(call)) {
        structured = structured_text(structured_running(run, printed, status), ended, &text);
    }
    bool made =
        structured || (buf_append_text(&text, ended) == 0 && output_compose(printed, &text) == 0 &&
                       buf_appendf(&text, "%s\n", status) == 0);
    json_t *blocks = made ? json_pack("[o]", first_block(&text)) : NULL;
    rpc_call_result(call, blocks, structured, /* is_error= */ false);
}
