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

/* The size of the line at *at, which then moves behind it. */
static size_t next_line(const char **at, const char **ret_line)
{
    size_t size = strcspn(*at, "\n");
    *ret_line = *at;
    *at += size + ((*at)[size] == '\n');
    return size;
}

static json_t *lines_of(const struct run_text *text)
{
    json_t *list = json_array();
    const char *line = NULL;
    for (const char *at = text->size > 0 ? text->data : ""; *at;) {
        size_t size = next_line(&at, &line);
        (void)json_array_append_new(list, rpc_text(line, size));
    }
    return list;
}

/* One of "+plot.png (18 kB)", whose size in bytes stands in sizes. */
static json_t *file_of(const char *text, size_t size, uint64_t bytes)
{
    const char *change = text[0] == '+' ? "created" : text[0] == '-' ? "removed" : "changed";
    const char *path = text + 1;
    size_t length = size - 1;
    if (text[0] != '-') {
        while (length > 2 && path[length - 1] != '(') {
            length--;
        }
        length -= length > 2 ? 2 : 0;
    }
    json_t *file = json_pack("{s:o, s:s}", "path", rpc_text(path, length), "change", change);
    if (text[0] != '-') {
        (void)json_object_set_new(file, "size", json_integer((json_int_t)bytes));
        (void)json_object_set_new(file, "mime", json_string(type_of(path, length)));
    }
    return file;
}

static json_t *files_of(const struct run *run)
{
    json_t *list = json_array();
    const struct run_text *files = &run->parts[RUN_FILES];
    const struct run_text *sizes = &run->parts[RUN_FILE_SIZES];
    const char *size_at = sizes->size > 0 ? sizes->data : "";
    const char *line = NULL;
    for (const char *at = files->size > 0 ? files->data : ""; *at;) {
        const char *number = NULL;
        const char *rest = NULL;
        uint64_t bytes = 0;
        size_t size = next_line(&at, &line);
        if (next_line(&size_at, &number) > 0 && parse_digits(number, &bytes, &rest) < 0) {
            bytes = 0;
        }
        if (size > 1) {
            (void)json_array_append_new(list, file_of(line, size, bytes));
        }
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

static void set_list(json_t *object, const char *key, const struct run_text *text)
{
    if (text->size > 0) {
        (void)json_object_set_new(object, key, lines_of(text));
    }
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
    set_list(object, "variables", &run->parts[RUN_VARS]);
    set_list(object, "notes", &run->parts[RUN_NOTES]);
    if (has_images) {
        set_list(object, "images", &run->parts[RUN_IMAGES]);
    }
    set_number(object, "cpu_ms", &run->parts[RUN_CPU_MS]);
    set_number(object, "peak_memory_bytes", &run->parts[RUN_PEAK_BYTES]);
    return object;
}
