#include "tools/run/result.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/content/resource_uri.h"

/* --- a run as an object --- */

/* value: stolen; NULL: the object stays as it is. */
static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

static json_t *text_of(const struct run *run, enum run_fact fact)
{
    const struct run_text *text = &run->facts[fact];
    if (run_rows[fact].kind != RUN_LIST) {
        return text->size > 0 ? rpc_text(text->data, text->size) : NULL;
    }
    json_t *items = text->size > 0 ? json_array() : NULL;
    for (const char *at = NULL; (at = run_next_item(run, fact, at));) {
        (void)json_array_append_new(items, rpc_text(at, strlen(at)));
    }
    return items;
}

static json_t *number_of(const struct run *run, enum run_fact fact)
{
    uint64_t value = 0;
    bool sound = parse_u64(run_fact(run, fact), &value) == 0 && value < INT64_MAX;
    return sound ? json_integer((json_int_t)value) : NULL;
}

/* What the server knows itself of the end. */
static void set_end(const struct run *run, json_t *object)
{
    const struct run_end *end = &run->end;
    if (run->job > 0) {
        set(object, "job", json_integer((json_int_t)run->job));
    }
    if (end->state == RUN_STATE_RESTORED_EARLIER) {
        set(object, "restored_cell", json_integer((json_int_t)end->restored_cell));
    }
    if (end->outcome == RUN_EXIT || end->outcome == RUN_CRASHED) {
        set(object, end->outcome == RUN_EXIT ? "exit_code" : "signal",
            json_integer(end->process.code));
    }
}

void result_set_facts(const struct run *run, enum result_form form, const char *group,
                      json_t *object)
{
    size_t size = strlen(group);
    if (size == 0) {
        set_end(run, object);
    }
    for (enum run_fact fact = 0; fact < RUN_FACT_COUNT; fact++) {
        const struct run_row *row = &run_rows[fact];
        bool is_number = form == RESULT_STRUCTURED && row->kind == RUN_NUMBER;
        const char *name = form == RESULT_STRUCTURED && row->json ? row->json : row->name;
        if (name && strncmp(name, group, size) == 0 && name[size] && !strchr(name + size, '.')) {
            set(object, name + size, is_number ? number_of(run, fact) : text_of(run, fact));
        }
    }
}

/* As the status line has them. NULL: there are none. */
static json_t *variables_of(const struct run *run)
{
    json_t *list = NULL;
    for (struct run_change var = {}; run_next_change(run, RUN_VARS, &var);) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        list = list ? list : json_array();
        if (run_append_var(&text, &var) == 0) {
            (void)json_array_append_new(list, rpc_text(buf_bytes(&text), buf_size(&text)));
        }
    }
    return list;
}

/* The path is data, so that it can be opened: it is alone in a JSON string, and not quoted. */
static json_t *file_of(const char *text, const char *size)
{
    const char *change = text[0] == '+' ? "created" : text[0] == '-' ? "removed" : "changed";
    const char *path = text + 1;
    uint64_t bytes = 0;
    json_t *file = json_pack("{s:o, s:s}", "path", rpc_text(path, strlen(path)), "change", change);
    if (text[0] != '-') {
        bool known = size && parse_u64(size, &bytes) == 0 && bytes < INT64_MAX;
        set(file, "size", json_integer(known ? (json_int_t)bytes : 0));
        set(file, "mime", json_string(resource_type(path)));
    }
    return file;
}

static json_t *files_of(const struct run *run)
{
    json_t *list = json_array();
    for (struct run_change file = {}; run_next_change(run, RUN_FILES, &file);) {
        if (*file.name) {
            (void)json_array_append_new(list, file_of(file.name, file.size));
        }
    }
    return list;
}

static json_t *stream_of(const struct output *output)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    return output_compose(output, &text) == 0 ? rpc_text(buf_bytes(&text), buf_size(&text)) : NULL;
}

/* undo or restore; NULL: neither was carried out. */
static json_t *back_of(const struct run *run)
{
    bool restored = run_fact(run, RUN_BACK_NAME)[0];
    json_t *back = run_fact(run, RUN_BACK)[0]
                       ? json_pack("{s:s, s:I}", "by", restored ? "restore" : "undo", "cell",
                                   (json_int_t)run->back_cell)
                       : NULL;
    result_set_facts(run, RESULT_STRUCTURED, "went_back.", back);
    return back;
}

/* Whether the requested name was saved; NULL: none was requested, or the call did not reach it. */
static json_t *checkpoint_of(const struct run *run)
{
    json_t *checkpoint = run_fact(run, RUN_SAVED)[0]
                             ? json_pack("{s:b}", "saved", !run_fact(run, RUN_UNSAVED)[0])
                             : NULL;
    result_set_facts(run, RESULT_STRUCTURED, "checkpoint.", checkpoint);
    return checkpoint;
}

static json_t *value_of(const struct run *run)
{
    const struct run_text *text = &run->facts[RUN_JSON];
    return text->size > 0 ? rpc_text_value(text->data, text->size, LIMIT_RESULT_JSON_DEPTH) : NULL;
}

json_t *result_structured(const struct run *run, bool has_images)
{
    OWNED(buf_done) struct buf summary = BUF_EMPTY;
    bool has_name = run->end.outcome <= RUN_OOM; /* the others are crashes for a client */
    const struct output none = {};
    const struct output *printed = run->only_news ? &run->news : &run->output;
    const struct output *errors = run->only_news ? &none : &run->errors;
    bool truncated = output_is_cut(printed) || output_is_cut(errors);
    if (run_compose_status(run, &summary) < 0) {
        return NULL;
    }
    json_t *object = json_pack("{s:s, s:o, s:b, s:s, s:o, s:i, s:I}", "status",
                               has_name ? run_outcome_key(run->end.outcome) : "crashed", "summary",
                               rpc_text(buf_bytes(&summary), buf_size(&summary)), "truncated",
                               truncated, "state", run_state_name(run->end.state), "files",
                               files_of(run), "cell", (int)run->cell, "duration_ms",
                               (json_int_t)(run->end.duration_ns / CLOCK_NS_PER_MS));
    if (!object) {
        return NULL;
    }
    set(object, "went_back", back_of(run));
    set(object, "checkpoint", checkpoint_of(run));
    if (run->pending > 0 && run->pending != RUN_PENDING_MANY) {
        set(object, "changes_not_applied", json_integer((json_int_t)run->pending));
    }
    set(object, "stdout", stream_of(printed));
    set(object, "stderr", stream_of(errors));
    if (truncated && run->output.file[0]) {
        set(object, "output_file", json_string(run->output.file));
    }
    json_auto_t *error = json_object();
    result_set_facts(run, RESULT_STRUCTURED, "error.", error);
    if (json_object_size(error) > 0) {
        (void)json_object_set(object, "error", error);
    }
    result_set_facts(run, RESULT_STRUCTURED, "", object);
    set(object, "result_json", value_of(run));
    set(object, "variables", variables_of(run));
    if (has_images) {
        set(object, "images", text_of(run, RUN_IMAGES));
    }
    return object;
}

static json_t *structured_view(const struct run *run, bool has_images)
{
    const struct run_text *shown = &run->facts[RUN_SHOWN];
    json_t *object = result_structured(run, has_images);
    set(object, "v", json_integer(1));
    set(object, "shown", rpc_text_value(shown->data, shown->size, LIMIT_RESULT_JSON_DEPTH));
    (void)json_object_del(object, "result_json"); /* people read its text */
    return object;
}

static json_t *structured_running(const struct run *run, const struct output *printed,
                                  const char *status)
{
    uint64_t ns = run->started_ns ? clock_now_ns() - run->started_ns : 0;
    return json_pack("{s:s, s:s, s:b, s:s, s:[], s:i, s:I, s:I, s:o, s:s}", "status", "running",
                     "summary", status, "truncated", output_is_cut(printed), "state", "running",
                     "files", "cell", (int)run->cell, "duration_ms",
                     (json_int_t)(ns / CLOCK_NS_PER_MS), "job", (json_int_t)run->job, "stdout",
                     stream_of(printed), "stderr", "");
}

/* --- the results of calls --- */

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
            structured_text(result_structured(run, json_array_size(images) > 0), ended, &text);
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
    rpc_call_set_meta(call, "sandpiper/result", value_of(run));
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
