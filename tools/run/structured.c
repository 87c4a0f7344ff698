#include "tools/run/structured.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "rpc/text.h"
#include "tools/content/resource_uri.h"

/* The others are "crashed". */
static const char *const statuses[RUN_OUTCOME_COUNT] = {
    [RUN_OK] = "ok",           [RUN_ERROR] = "error",       [RUN_EXIT] = "exit",
    [RUN_TIMEOUT] = "timeout", [RUN_OOM] = "out_of_memory", [RUN_STOPPED] = "stopped",
};

/* value: stolen; NULL: the object stays as it is. */
static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

json_t *structured_fact(const struct run *run, enum run_fact fact)
{
    const struct run_text *text = &run->facts[fact];
    if (text->size == 0) {
        return NULL;
    }
    if (fact > RUN_LISTS) {
        return rpc_text(text->data, text->size);
    }
    json_t *items = json_array();
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

static json_t *error_of(const struct run *run)
{
    return json_pack(
        "{s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*}", "type", structured_fact(run, RUN_ERROR_TYPE),
        "message", structured_fact(run, RUN_ERROR_MESSAGE), "cell", number_of(run, RUN_ERROR_CELL),
        "line", number_of(run, RUN_ERROR_LINE), "where", structured_fact(run, RUN_WHERE),
        "traceback", structured_fact(run, RUN_TRACEBACK), "hint", structured_fact(run, RUN_HINT));
}

static json_t *stream_of(const struct output *output)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    return output_compose(output, &text) == 0 ? rpc_text(buf_bytes(&text), buf_size(&text)) : NULL;
}

/* undo or restore; NULL: neither was carried out. */
static json_t *back_of(const struct run *run)
{
    const char *by = run_fact(run, RUN_BACK_NAME)[0] ? "restore" : "undo";
    return run_fact(run, RUN_BACK)[0]
               ? json_pack("{s:s, s:I, s:o*, s:o*, s:o*}", "by", by, "cell",
                           (json_int_t)run->back_cell, "name", structured_fact(run, RUN_BACK_NAME),
                           "left", structured_fact(run, RUN_LEFT_STATE), "files",
                           structured_fact(run, RUN_FILES_BACK))
               : NULL;
}

/* Whether the requested name was saved; NULL: none was requested, or the call did not reach it. */
static json_t *checkpoint_of(const struct run *run)
{
    json_t *why = structured_fact(run, RUN_UNSAVED);
    return run_fact(run, RUN_SAVED)[0]
               ? json_pack("{s:s, s:b, s:o*, s:o*}", "name", run->request.save, "saved", !why,
                           "reason", why, "dropped", structured_fact(run, RUN_SAVE_DROPPED))
               : NULL;
}

/* What became of the session's states, beside the one word. */
static void set_states(json_t *object, const struct run *run)
{
    set(object, "went_back", back_of(run));
    set(object, "checkpoint", checkpoint_of(run));
    if (run->end.state == RUN_STATE_RESTORED_EARLIER) {
        set(object, "restored_cell", json_integer((json_int_t)run->end.restored_cell));
    }
    if (run->pending > 0 && run->pending != RUN_PENDING_MANY) {
        set(object, "changes_not_applied", json_integer((json_int_t)run->pending));
    }
    set(object, "threads_lost", number_of(run, RUN_THREADS));
    set(object, "processes_killed", number_of(run, RUN_PROCESSES));
    set(object, "killed", structured_fact(run, RUN_KILLED));
    set(object, "gone", structured_fact(run, RUN_GONE));
    set(object, "older", structured_fact(run, RUN_OLDER));
    set(object, "named_states", structured_fact(run, RUN_NAMED_STATES));
    set(object, "files_note", structured_fact(run, RUN_FILES_NOTE));
    set(object, "tools", structured_fact(run, RUN_TOOLS));
    set(object, "not_undone", structured_fact(run, RUN_NOT_UNDONE));
    set(object, "memory", structured_fact(run, RUN_MEMORY));
    set(object, "before", structured_fact(run, RUN_BEFORE));
}

json_t *structured_value(const struct run *run)
{
    const struct run_text *text = &run->facts[RUN_JSON];
    return text->size > 0 ? rpc_text_value(text->data, text->size, LIMIT_RESULT_JSON_DEPTH) : NULL;
}

json_t *structured_run(const struct run *run, bool has_images)
{
    OWNED(buf_done) struct buf summary = BUF_EMPTY;
    const char *status = statuses[run->end.outcome];
    const struct output none = {};
    const struct output *printed = run->only_news ? &run->news : &run->output;
    const struct output *errors = run->only_news ? &none : &run->errors;
    bool truncated = output_is_cut(printed) || output_is_cut(errors);
    if (run_compose_status(run, &summary) < 0) {
        return NULL;
    }
    json_t *object = json_pack(
        "{s:s, s:o, s:b, s:s, s:o, s:i, s:I}", "status", status ? status : "crashed", "summary",
        rpc_text(buf_bytes(&summary), buf_size(&summary)), "truncated", truncated, "state",
        run_state_name(run->end.state), "files", files_of(run), "cell", (int)run->cell,
        "duration_ms", (json_int_t)(run->end.duration_ns / CLOCK_NS_PER_MS));
    if (!object) {
        return NULL;
    }
    if (run->job > 0) {
        set(object, "job", json_integer((json_int_t)run->job));
    }
    set_states(object, run);
    set(object, "stdout", stream_of(printed));
    set(object, "stderr", stream_of(errors));
    if (truncated && run->output.file[0]) {
        set(object, "output_file", json_string(run->output.file));
    }
    set(object, "result", structured_fact(run, RUN_VALUE));
    set(object, "result_json", structured_value(run));
    json_auto_t *error = error_of(run);
    if (json_object_size(error) > 0) {
        (void)json_object_set(object, "error", error);
    }
    if (run->end.outcome == RUN_EXIT) {
        set(object, "exit_code", json_integer(run->end.process.code));
    } else if (run->end.outcome == RUN_CRASHED) {
        set(object, "signal", json_integer(run->end.process.code));
    }
    set(object, "variables", variables_of(run));
    set(object, "notes", structured_fact(run, RUN_NOTES));
    if (has_images) {
        set(object, "images", structured_fact(run, RUN_IMAGES));
    }
    set(object, "cpu_ms", number_of(run, RUN_CPU_MS));
    set(object, "peak_memory_bytes", number_of(run, RUN_PEAK_BYTES));
    return object;
}

json_t *structured_view(const struct run *run, bool has_images)
{
    const struct run_text *shown = &run->facts[RUN_SHOWN];
    json_t *object = structured_run(run, has_images);
    set(object, "v", json_integer(1));
    set(object, "shown", rpc_text_value(shown->data, shown->size, LIMIT_RESULT_JSON_DEPTH));
    (void)json_object_del(object, "result_json"); /* people read its text */
    return object;
}

json_t *structured_running(const struct run *run, const struct output *printed, const char *status)
{
    uint64_t ns = run->started_ns ? clock_now_ns() - run->started_ns : 0;
    return json_pack("{s:s, s:s, s:b, s:s, s:[], s:i, s:I, s:I, s:o, s:s}", "status", "running",
                     "summary", status, "truncated", output_is_cut(printed), "state", "running",
                     "files", "cell", (int)run->cell, "duration_ms",
                     (json_int_t)(ns / CLOCK_NS_PER_MS), "job", (json_int_t)run->job, "stdout",
                     stream_of(printed), "stderr", "");
}
