#include "tools/structured.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "rpc/text.h"
#include "tools/run.h"

static const char *status_of(const struct run *run)
{
    switch (run->outcome) {
    case RUN_OK:
        return "ok";
    case RUN_ERROR:
        return "error";
    case RUN_EXIT:
        return "exit";
    case RUN_TIMEOUT:
        return "timeout";
    case RUN_OOM:
        return "out_of_memory";
    case RUN_DISK:
    case RUN_CRASHED:
    case RUN_LOST:
    case RUN_ENDED:
    case RUN_CANCELLED:
    case RUN_REFUSED:
    case RUN_OUTCOME_COUNT:
    default:
        return "crashed";
    }
}

static const struct {
    const char *suffix;
    const char *type;
} types[] = {
    {".csv", "text/csv"},        {".gif", "image/gif"},       {".html", "text/html"},
    {".jpeg", "image/jpeg"},     {".jpg", "image/jpeg"},      {".json", "application/json"},
    {".md", "text/markdown"},    {".pdf", "application/pdf"}, {".png", "image/png"},
    {".py", "text/x-python"},    {".svg", "image/svg+xml"},   {".tsv", "text/tab-separated-values"},
    {".txt", "text/plain"},      {".webp", "image/webp"},     {".xml", "application/xml"},
    {".zip", "application/zip"},
};

static const char *type_of(const char *path, size_t size)
{
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        size_t suffix = strlen(types[i].suffix);
        if (size > suffix && strncmp(path + size - suffix, types[i].suffix, suffix) == 0) {
            return types[i].type;
        }
    }
    return "application/octet-stream";
}

static void set_text(json_t *object, const char *key, const struct run_text *text)
{
    if (text->size > 0) {
        (void)json_object_set_new(object, key, rpc_text(text->data, text->size));
    }
}

static void set_number(json_t *object, const char *key, const struct run_text *text)
{
    uint64_t value = 0;
    if (text->size > 0 && parse_u64(text->data, &value) == 0 && value < INT64_MAX) {
        (void)json_object_set_new(object, key, json_integer((json_int_t)value));
    }
}

static json_t *strings_of(const struct run *run, enum run_part list)
{
    json_t *strings = json_array();
    for (const char *at = NULL; (at = run_next_item(run, list, at));) {
        (void)json_array_append_new(strings, rpc_text(at, strlen(at)));
    }
    return strings;
}

/* As the status line has them. */
static json_t *variables_of(const struct run *run)
{
    json_t *list = json_array();
    const char *kind = run_next_item(run, RUN_VAR_KINDS, NULL);
    for (const char *at = NULL; (at = run_next_item(run, RUN_VARS, at));) {
        OWNED(buf_done) struct buf text = BUF_EMPTY;
        if (run_append_var(&text, at, kind) == 0) {
            (void)json_array_append_new(list, rpc_text(buf_bytes(&text), buf_size(&text)));
        }
        kind = kind ? run_next_item(run, RUN_VAR_KINDS, kind) : NULL;
    }
    return list;
}

/* The path is data, so that it can be opened: it stands alone in a JSON string, and is not quoted. */
static json_t *file_of(const char *text, const char *size)
{
    const char *change = text[0] == '+' ? "created" : text[0] == '-' ? "removed" : "changed";
    const char *path = text + 1;
    uint64_t bytes = 0;
    json_t *file = json_pack("{s:o, s:s}", "path", rpc_text(path, strlen(path)), "change", change);
    if (text[0] != '-') {
        bool known = size && parse_u64(size, &bytes) == 0 && bytes < INT64_MAX;
        (void)json_object_set_new(file, "size", json_integer(known ? (json_int_t)bytes : 0));
        (void)json_object_set_new(file, "mime", json_string(type_of(path, strlen(path))));
    }
    return file;
}

static json_t *files_of(const struct run *run)
{
    json_t *list = json_array();
    const char *size = run_next_item(run, RUN_FILE_SIZES, NULL);
    for (const char *at = NULL; (at = run_next_item(run, RUN_FILES, at));) {
        if (*at) {
            (void)json_array_append_new(list, file_of(at, size));
        }
        size = size ? run_next_item(run, RUN_FILE_SIZES, size) : NULL;
    }
    return list;
}

static json_t *error_of(const struct run *run)
{
    json_t *error = json_object();
    set_text(error, "type", &run->parts[RUN_ERROR_TYPE]);
    set_text(error, "message", &run->parts[RUN_ERROR_MESSAGE]);
    set_number(error, "cell", &run->parts[RUN_ERROR_CELL]);
    set_number(error, "line", &run->parts[RUN_ERROR_LINE]);
    set_text(error, "where", &run->parts[RUN_WHERE]);
    set_text(error, "traceback", &run->parts[RUN_TRACEBACK]);
    set_text(error, "hint", &run->parts[RUN_HINT]);
    return error;
}

static void set_stream(json_t *object, const char *key, const struct output *output)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (output_compose(output, &text) == 0) {
        (void)json_object_set_new(object, key, rpc_text(buf_bytes(&text), buf_size(&text)));
    }
}

/* undo or restore; NULL: neither was carried out. */
static json_t *back_of(const struct run *run)
{
    if (!run->went_back) {
        return NULL;
    }
    bool named = run->back_name[0];
    json_t *back = json_pack("{s:s, s:I}", "by", named ? "restore" : "undo", "cell",
                             (json_int_t)run->back_cell);
    if (named) {
        (void)json_object_set_new(back, "name", json_string(run->back_name));
    }
    return back;
}

/* What became of the name that was asked for; NULL: none was, or the call did not come to it. */
static json_t *checkpoint_of(const struct run *run)
{
    if (run->saving == RUN_SAVE_NONE) {
        return NULL;
    }
    const char *why = run_unsaved_text(run);
    json_t *checkpoint = json_pack("{s:s, s:b}", "name", run->save, "saved", !why);
    if (why) {
        (void)json_object_set_new(checkpoint, "reason", json_string(why));
    }
    if (run->dropped[0]) {
        (void)json_object_set_new(checkpoint, "dropped", json_string(run->dropped));
    }
    return checkpoint;
}

/* What became of the session's states, beside the one word. */
static void set_states(json_t *object, const struct run *run)
{
    const char *const texts[][2] = {
        {"gone", run->gone}, {"memory", run->memory}, {"before", run->before}};
    json_t *back = back_of(run);
    json_t *checkpoint = checkpoint_of(run);
    if (back) {
        (void)json_object_set_new(object, "went_back", back);
    }
    if (checkpoint) {
        (void)json_object_set_new(object, "checkpoint", checkpoint);
    }
    if (run->state == RUN_STATE_RESTORED_EARLIER) {
        (void)json_object_set_new(object, "restored_cell",
                                  json_integer((json_int_t)run->restored_cell));
    }
    if (run->threads > 0) {
        (void)json_object_set_new(object, "threads_lost", json_integer((json_int_t)run->threads));
    }
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i][1][0]) {
            (void)json_object_set_new(object, texts[i][0],
                                      rpc_text(texts[i][1], strlen(texts[i][1])));
        }
    }
}

/* list: stolen. */
static void set_list(json_t *object, const char *key, json_t *list)
{
    if (json_array_size(list) > 0) {
        (void)json_object_set(object, key, list);
    }
    json_decref(list);
}

json_t *structured_run(const struct run *run, bool has_images)
{
    OWNED(buf_done) struct buf summary = BUF_EMPTY;
    bool truncated = output_is_cut(&run->output) || output_is_cut(&run->errors);
    if (run_compose_status(run, &summary) < 0) {
        return NULL;
    }
    json_t *object =
        json_pack("{s:s, s:o, s:b, s:s, s:o, s:i, s:I}", "status", status_of(run), "summary",
                  rpc_text(buf_bytes(&summary), buf_size(&summary)), "truncated", truncated,
                  "state", run_state_name(run->state), "files", files_of(run), "cell",
                  (int)run->cell, "duration_ms", (json_int_t)(run->duration_ns / CLOCK_NS_PER_MS));
    if (!object) {
        return NULL;
    }
    set_states(object, run);
    set_stream(object, "stdout", &run->output);
    set_stream(object, "stderr", &run->errors);
    if (truncated && run->output.file[0]) {
        (void)json_object_set_new(object, "output_file", json_string(run->output.file));
    }
    set_text(object, "result", &run->parts[RUN_VALUE]);
    json_auto_t *error = error_of(run);
    if (json_object_size(error) > 0) {
        (void)json_object_set(object, "error", error);
    }
    if (run->outcome == RUN_EXIT) {
        (void)json_object_set_new(object, "exit_code", json_integer(run->code_number));
    } else if (run->outcome == RUN_CRASHED) {
        (void)json_object_set_new(object, "signal", json_integer(run->code_number));
    }
    set_list(object, "variables", variables_of(run));
    set_list(object, "notes", strings_of(run, RUN_NOTES));
    if (has_images) {
        set_list(object, "images", strings_of(run, RUN_IMAGES));
    }
    set_number(object, "cpu_ms", &run->parts[RUN_CPU_MS]);
    set_number(object, "peak_memory_bytes", &run->parts[RUN_PEAK_BYTES]);
    return object;
}
