#include "tools/run/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "record/record.h"
#include "rpc/text.h"
#include "tools/content/content.h"
#include "tools/run/result.h"

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

/* value: stolen; NULL: left out. */
static void set(json_t *event, const char *key, json_t *value)
{
    (void)json_object_set_new(event, key, value);
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

static void set_output(struct run *run, json_t *event)
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
static void set_images(struct run *run, const json_t *images, json_t *event)
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

static json_t *status_of(const struct run *run)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    return run_compose_status(run, &text) == 0 ? rpc_text(buf_bytes(&text), buf_size(&text)) : NULL;
}

static void set_end(const struct run *run, json_t *event)
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
    set_end(run, event);
    result_set_facts(run, RESULT_RECORD, "", event);
    set_output(run, event);
    set_images(run, images, event);
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
