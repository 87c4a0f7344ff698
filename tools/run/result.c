/* --- a run as an object --- */
#include "tools/run/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "record/record.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/content/app_view.h"
#include "tools/content/content.h"
#include "tools/content/mounts.h"
#include "tools/run/run.h"

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

/* New: the status line; NULL when out of memory. */
static json_t *status_of(const struct run *run)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    return run_compose_status(run, &text) == 0 ? rpc_text(buf_bytes(&text), buf_size(&text)) : NULL;
}

json_t *result_structured(const struct run *run, bool has_images)
{
    bool has_name = run->end.outcome <= RUN_OOM; /* the others are crashes for a client */
    const struct output none = {};
    const struct output *printed = run->only_news ? &run->news : &run->output;
    const struct output *errors = run->only_news ? &none : &run->errors;
    bool truncated = output_is_cut(printed) || output_is_cut(errors);
    json_t *object =
        json_pack("{s:s, s:o, s:b, s:s, s:o, s:i, s:I}", "status",
                  has_name ? run_outcome_key(run->end.outcome) : "crashed", "summary",
                  status_of(run), "truncated", truncated, "state", run_state_name(run->end.state),
                  "files", files_of(run), "cell", (int)run->cell, "duration_ms",
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
    OWNED(buf_done) struct buf before = BUF_EMPTY;
    const char *back = run_fact(run, RUN_SESSION);
    json_t *structured = NULL;
    (void)buf_appendf(&before, "%s%s%s", back, back[0] ? "\n" : "", ended);
    if (rpc_call_wants_structured(call)) {
        structured =
            structured_text(structured_running(run, printed, status), buf_text(&before), &text);
    }
    bool made = structured ||
                (buf_append_text(&text, buf_text(&before)) == 0 &&
                 output_compose(printed, &text) == 0 && buf_appendf(&text, "%s\n", status) == 0);
    json_t *blocks = made ? json_pack("[o]", first_block(&text)) : NULL;
    rpc_call_result(call, blocks, structured, /* is_error= */ false);
}

void recorded_begin(struct run *run, struct record *record, const json_t *arguments)
{
    struct recording *recording = &run->recording;
    if (record) {
        recording->record = record;
        recording->call = record_next_call(record);
        recording->arguments = json_incref((json_t *)(uintptr_t)arguments);
        sha256_init(&recording->hash);
    }
}

void recorded_done(struct run *run)
{
    json_decref(run->recording.arguments);
    json_decref(run->recording.pieces);
    buf_done(&run->recording.piece);
}

json_t *recorded_event(const struct recording *recording)
{
    const char *session = json_string_value(json_object_get(recording->arguments, "session"));
    return json_pack("{s:I, s:s}", "call", (json_int_t)recording->call, "session",
                     session ? session : "default");
}

/* What the call did before its code. */
static void record_before(const struct run *run)
{
    struct record *record = run->recording.record;
    if (run_fact(run, RUN_BACK)[0]) {
        json_t *event = recorded_event(&run->recording);
        set(event, "to", json_integer((json_int_t)run->back_cell));
        result_set_facts(run, RESULT_RECORD, "went_back.", event);
        record_add(record, run_fact(run, RUN_BACK_NAME)[0] ? "restore" : "undo", event);
    }
    if (run->was_reset) {
        record_add(record, "reset", recorded_event(&run->recording));
    }
}

void recorded_cell(struct run *run)
{
    struct recording *recording = &run->recording;
    if (!recording->record || recording->has_cell) {
        return;
    }
    recording->has_cell = true;
    record_before(run);
    json_t *event = recorded_event(&run->recording);
    json_t *others = json_copy(recording->arguments);
    (void)json_object_del(others, "code");
    (void)json_object_del(others, "session");
    set(event, "cell", run->cell > 0 ? json_integer((json_int_t)run->cell) : json_null());
    set(event, "code", json_incref(run->request.held_code));
    set(event, "arguments", others);
    set(event, "trace", json_incref(run->request.trace));
    record_add(recording->record, "cell", event);
}

/* The piece that was printed last, to one stream, is complete. */
static void end_piece(struct recording *recording)
{
    if (buf_size(&recording->piece) > 0) {
        recording->pieces = recording->pieces ? recording->pieces : json_array();
        (void)json_array_append_new(
            recording->pieces,
            json_pack("[s, o]", recording->stream == BOX_STDERR ? "stderr" : "stdout",
                      rpc_text(buf_bytes(&recording->piece), buf_size(&recording->piece))));
        buf_clear(&recording->piece, LIMIT_OUTPUT_HEAD_BYTES);
    }
}

void recorded_output(struct run *run, unsigned stream, const char *bytes, size_t size)
{
    struct recording *recording = &run->recording;
    if (!recording->record) {
        return;
    }
    uint64_t left =
        recording->bytes < LIMIT_RECORD_PART_BYTES ? LIMIT_RECORD_PART_BYTES - recording->bytes : 0;
    sha256_add(&recording->hash, bytes, size);
    recording->bytes += size;
    if (stream != recording->stream) {
        end_piece(recording);
        recording->stream = stream;
    }
    if (json_array_size(recording->pieces) == LIMIT_RECORD_PIECES) {
        left = 0;
    }
    recording->kept += size < left ? size : left;
    (void)buf_append(&recording->piece, bytes, size < left ? size : (size_t)left);
}

void recorded_job(struct run *run)
{
    if (run->recording.record) {
        json_t *event = recorded_event(&run->recording);
        set(event, "job", json_integer((json_int_t)run->job));
        record_add(run->recording.record, "job", event);
    }
}

static void recorded_set_output(struct run *run, json_t *event)
{
    struct recording *recording = &run->recording;
    char hash[SHA256_TEXT];
    end_piece(recording);
    if (recording->bytes == 0) {
        return;
    }
    bool kept = record_has_space(recording->record, recording->kept);
    if (kept) {
        set(event, "output", json_incref(recording->pieces));
    }
    if (!kept || recording->kept < recording->bytes) {
        set(event, "output_bytes", json_integer((json_int_t)recording->bytes));
        set(event, "output_sha256", json_string(sha256_end(&recording->hash, hash)));
    }
}

/* Figures are at most LIMIT_IMAGES_BYTES together. */
static void recorded_set_images(struct run *run, const json_t *images, json_t *event)
{
    json_auto_t *list = json_array();
    size_t i = 0;
    json_t *block = NULL;
    json_array_foreach (images, i, block) {
        json_t *data = json_object_get(block, "data");
        char hash[SHA256_TEXT];
        size_t size = json_string_length(data);
        if (!data) {
            continue;
        }
        json_t *image = json_pack("{s:O}", "mime", json_object_get(block, "mimeType"));
        if (record_has_space(run->recording.record, size)) {
            set(image, "data", json_incref(data));
        } else {
            set(image, "base64_bytes", json_integer((json_int_t)size));
            set(image, "base64_sha256",
                json_string(sha256_of(json_string_value(data), size, hash)));
        }
        (void)json_array_append_new(list, image);
    }
    if (json_array_size(list) > 0) {
        set(event, "images", json_incref(list));
    }
}

static void recorded_set_end(const struct run *run, json_t *event)
{
    const struct run_end *end = &run->end;
    set(event, "cell", run->cell > 0 ? json_integer((json_int_t)run->cell) : json_null());
    set(event, "outcome", json_string(run_outcome_key(end->outcome)));
    set(event, "state", json_string(run_state_key(end->state)));
    set(event, "is_error", json_boolean(run_is_error(run)));
    set(event, "duration_ms", json_integer((json_int_t)(end->duration_ns / CLOCK_NS_PER_MS)));
    set(event, "status", status_of(run));
    if (end->outcome == RUN_TIMEOUT) {
        set(event, "timeout_ms", json_integer((json_int_t)run->request.timeout_ms));
    }
}

void recorded_result(struct run *run, const json_t *images)
{
    struct record *record = run->recording.record;
    if (!record) {
        return;
    }
    recorded_cell(run); /* of one whose code was not sent */
    json_t *event = recorded_event(&run->recording);
    recorded_set_end(run, event);
    result_set_facts(run, RESULT_RECORD, "", event);
    recorded_set_output(run, event);
    recorded_set_images(run, images, event);
    record_add(record, "result", event);
    if (run_fact(run, RUN_SAVED)[0]) {
        json_t *saved = recorded_event(&run->recording);
        set(saved, "cell", json_integer((json_int_t)run->cell));
        result_set_facts(run, RESULT_RECORD, "checkpoint.", saved);
        record_add(record, "checkpoint", saved);
    }
}

/* --- other calls --- */

/* New: the arguments, with at most LIMIT_RECORD_PART_BYTES of a long text. */
static json_t *short_arguments(const json_t *arguments, json_t *event)
{
    static const char *const longs[] = {"content", "old_text", "new_text"};
    json_t *copy = json_copy((json_t *)(uintptr_t)arguments);
    for (unsigned i = 0; i < sizeof longs / sizeof *longs; i++) {
        const json_t *text = json_object_get(copy, longs[i]);
        if (json_string_length(text) > LIMIT_RECORD_PART_BYTES) {
            (void)json_object_set_new(copy, longs[i],
                                      rpc_text(json_string_value(text), LIMIT_RECORD_PART_BYTES));
            (void)json_object_set_new(event, "cut", json_true());
        }
    }
    return copy;
}

/* Whether JSON has more than LIMIT_RECORD_PART_BYTES. */
static bool exceeds_part(const json_t *value)
{
    OWNED(buf_done) struct buf dump = BUF_EMPTY;
    return rpc_text_dump(&dump, value) < 0 || buf_size(&dump) > LIMIT_RECORD_PART_BYTES;
}

/* New: the blocks; a text of the installer's, which may hold URLs, without credentials. */
static json_t *clean_content(const json_t *content)
{
    json_t *blocks = json_deep_copy(content);
    size_t i = 0;
    json_t *block = NULL;
    json_array_foreach (blocks, i, block) {
        const json_t *text = json_object_get(block, "text");
        if (text) {
            (void)json_object_set_new(
                block, "text", record_message(json_string_value(text), json_string_length(text)));
        }
    }
    return blocks;
}

static size_t content_size_of(const json_t *content)
{
    size_t size = 0;
    size_t i = 0;
    json_t *block = NULL;
    json_array_foreach (content, i, block) {
        size += json_string_length(json_object_get(block, "text")) +
                json_string_length(json_object_get(block, "data"));
    }
    return size;
}

json_t *recorded_file(const struct record *record, const char *path, int fd, uint64_t size)
{
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    char hash[SHA256_TEXT];
    json_t *facts = record ? json_pack("{s:o, s:I}", "path", rpc_text(path, strlen(path)), "size",
                                       (json_int_t)size)
                           : NULL;
    if (facts && size <= LIMIT_RECORD_PART_BYTES &&
        content_read(fd, 0, (size_t)size, &content) == 0) {
        (void)json_object_set_new(
            facts, "sha256", json_string(sha256_of(buf_bytes(&content), buf_size(&content), hash)));
    }
    return facts;
}

void recorded_call(struct record *record, const struct recorded_call *call, json_t *facts)
{
    const json_t *content = call->content;
    json_t *event =
        record ? json_pack("{s:s, s:b}", "tool", call->tool, "is_error", call->is_error) : NULL;
    bool installs = strcmp(call->tool, "install_package") == 0;
    if (!event) {
        json_decref(facts);
        return;
    }
    json_t *sent = short_arguments(call->arguments, event);
    (void)json_object_set_new(event, "arguments", sent);
    set(event, "trace", json_incref(call->trace));
    if (strcmp(call->kind, "tool") == 0 && exceeds_part(sent)) {
        record_leave_out(event, "arguments");
    }
    (void)json_object_update_new(event, facts);
    size_t size = content_size_of(content);
    if (content && record_has_space(record, size)) {
        (void)json_object_set_new(event, "content",
                                  installs ? clean_content(content) : json_deep_copy(content));
    } else if (content) {
        (void)json_object_set_new(event, "content_bytes", json_integer((json_int_t)size));
    }
    record_add(record, call->kind, event);
}
