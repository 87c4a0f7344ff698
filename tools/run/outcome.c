#include "tools/run/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/text.h"
#include "tools/run/recorded.h"

enum { PLACE_SOURCE_BYTES = 220, NUMBER_BYTES = 15 };

/* The handler of faulthandler ends with the outermost frame, the driver's, or with dots where there
 * are more than a hundred. */
bool outcome_trace_is_whole(const char *text)
{
    return strstr(text, "/driver.py\", line ") != NULL || strstr(text, "\n  ...\n") != NULL;
}

/* What is shown of a place: <cell 7>:4 "source". */
static void set_place(struct run *run, uint64_t cell, uint64_t line, const char *source,
                      size_t size)
{
    char shown[PLACE_SOURCE_BYTES];
    char place[sizeof shown + 64];
    int length =
        snprintf(place, sizeof place, "<cell %u>:%u%s%s", (unsigned)cell, (unsigned)line,
                 size ? " " : "", size ? word_quote(source, size, shown, sizeof shown) : "");
    run_add(run, RUN_WHERE, place, (size_t)length);
}

/* "  File "<cell 7>", line 4 in f" of the handler's lines becomes "<cell 7>:4 source". */
void outcome_take_place(struct run *run, const char *text)
{
    const char *file = strstr(text, "File \"<cell ");
    const char *line = file ? strstr(file, "\", line ") : NULL;
    const char *rest = NULL;
    uint64_t cell = 0;
    uint64_t number = 0;
    if (!line || !strchr(line, '\n') ||
        parse_digits(file + strlen("File \"<cell "), &cell, &rest) < 0 ||
        parse_digits(line + strlen("\", line "), &number, &rest) < 0) {
        return;
    }
    const char *source = cell == run->cell ? run->request.code : "";
    for (uint64_t i = 1; i < number && source; i++) {
        source = strchr(source, '\n');
        source = source ? source + 1 : NULL;
    }
    source = source ? source + strspn(source, " \t") : "";
    set_place(run, cell, number, source, strcspn(source, "\n"));
}

void outcome_take_trace(struct run *run, const char *text)
{
    run->end.stuck = strstr(text, "interrupted") == NULL;
    outcome_take_place(run, text);
}

enum part_form {
    FORM_TEXT,   /* cut where it is too long */
    FORM_DIGITS, /* anything else is no value */
    FORM_PATH,   /* one line, whole or not at all */
    FORM_NOTE,   /* a sentence, put in quotes */
    FORM_JSON,   /* whole or not at all; shown to no model, so it takes nothing from the others */
};

/* Each bound is above what the driver sends (guest/display.py, as_json.py, trace.py, outcome.py,
 * changes.py, images.py). Lists that belong together (file, file_size, file_kind) may come equally
 * often. */
static const struct part {
    const char *name;
    enum run_fact fact;
    enum part_form form;
    unsigned most; /* how often it may come; one that comes once does not replace what the server
                      knows */
    size_t characters; /* of FORM_JSON: bytes */
} result_parts[] = {
    {"value", RUN_VALUE, FORM_TEXT, 1, 17000},
    {"json", RUN_JSON, FORM_JSON, 1, LIMIT_RESULT_JSON_BYTES},
    {"shown", RUN_SHOWN, FORM_JSON, 1, LIMIT_VIEW_BYTES},
    {"traceback", RUN_TRACEBACK, FORM_TEXT, 1, 14000},
    {"error_type", RUN_ERROR_TYPE, FORM_TEXT, 1, 200},
    {"error_message", RUN_ERROR_MESSAGE, FORM_TEXT, 1, 2200},
    {"error_cell", RUN_ERROR_CELL, FORM_DIGITS, 1, NUMBER_BYTES},
    {"error_line", RUN_ERROR_LINE, FORM_DIGITS, 1, NUMBER_BYTES},
    {"hint", RUN_HINT, FORM_TEXT, 1, 2000},
    {"file", RUN_FILES, FORM_TEXT, 40, LIMIT_PATH_BYTES + 40},
    {"file_size", RUN_FILE_SIZES, FORM_DIGITS, 40, NUMBER_BYTES},
    {"file_kind", RUN_FILE_KINDS, FORM_TEXT, 40, 20},
    {"files_more", RUN_FILES_MORE, FORM_DIGITS, 1, NUMBER_BYTES},
    {"files_note", RUN_NOTES, FORM_NOTE, 2, 400},
    {"var", RUN_VARS, FORM_TEXT, 20, 400},
    {"var_kind", RUN_VAR_KINDS, FORM_TEXT, 20, 400},
    {"vars_more", RUN_VARS_MORE, FORM_DIGITS, 1, NUMBER_BYTES},
    {"note", RUN_NOTES, FORM_NOTE, 16, 400},
    {"image", RUN_IMAGES, FORM_PATH, LIMIT_IMAGES, LIMIT_PATH_BYTES},
    {"claims", RUN_CLAIMS, FORM_JSON, 1, LIMIT_RESULT_JSON_BYTES},
    {"cpu_ms", RUN_CPU_MS, FORM_DIGITS, 1, NUMBER_BYTES},
    {"peak_bytes", RUN_PEAK_BYTES, FORM_DIGITS, 1, NUMBER_BYTES},
};

enum { PARTS = sizeof result_parts / sizeof *result_parts };

static bool is_digits(const struct box_field *value)
{
    size_t digits = 0;
    while (digits < value->size && value->data[digits] >= '0' && value->data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == value->size && digits <= NUMBER_BYTES;
}

/* An empty item stands for one of a list that is no number: it keeps its place beside those of
 * other lists. */
static void take_digits(struct run *run, const struct part *part, const struct box_field *value)
{
    bool sound = is_digits(value);
    if (sound || part->most > 1) {
        run_add(run, part->fact, value->data, sound ? value->size : 0);
    }
}

static void take_text(struct run *run, const struct part *part, const struct box_field *value,
                      size_t fitting)
{
    OWNED(buf_done) struct buf cut = BUF_EMPTY;
    if (fitting == value->size) {
        run_add(run, part->fact, value->data, value->size);
    } else if (buf_append(&cut, value->data, fitting) == 0 &&
               buf_appendf(&cut, " … (%zu bytes cut)", value->size - fitting) == 0) {
        run_add(run, part->fact, buf_bytes(&cut), buf_size(&cut));
    }
}

/* left: characters that all parts together may still take; lowered. */
static void take_part(struct run *run, const struct part *part, const struct box_field *value,
                      size_t *left)
{
    char note[WORD_PHRASE + 1];
    if (part->form == FORM_JSON) {
        if (value->size <= part->characters) {
            run_add(run, part->fact, value->data, value->size);
        }
        return;
    }
    size_t space = part->characters < *left ? part->characters : *left;
    size_t rest = space;
    size_t fitting = rpc_text_fitting(value->data, value->size, &rest);
    *left -= space - rest;
    switch (part->form) {
    case FORM_DIGITS:
        take_digits(run, part, value);
        break;
    case FORM_PATH:
        if (fitting == value->size && !memchr(value->data, '\n', value->size)) {
            run_add(run, part->fact, value->data, value->size);
        }
        break;
    case FORM_NOTE:
        (void)word_quote(value->data, fitting, note, sizeof note);
        run_add(run, part->fact, note, strlen(note));
        break;
    case FORM_TEXT:
    case FORM_JSON:
    default:
        take_text(run, part, value, fitting);
        break;
    }
}

/* Where the code was, unless the server knows that. */
static void take_where(struct run *run, const struct box_message *message, size_t left)
{
    struct box_field source;
    uint64_t cell = box_message_number(message, "where_cell", 0);
    size_t space = left < PLACE_SOURCE_BYTES ? left : PLACE_SOURCE_BYTES;
    if (cell > 0 && run->facts[RUN_WHERE].size == 0 &&
        box_message_get(message, "where_source", &source)) {
        set_place(run, cell, box_message_number(message, "where_line", 0), source.data,
                  rpc_text_fitting(source.data, source.size, &space));
    }
}

void outcome_take_parts(struct run *run, const struct box_message *message)
{
    unsigned taken[PARTS] = {};
    size_t left = LIMIT_RESULT_CHARS;
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        for (unsigned p = 0; p < PARTS; p++) {
            const struct part *part = &result_parts[p];
            if (box_field_is(&message->fields[i], part->name) && taken[p] < part->most &&
                (part->most > 1 || run->facts[part->fact].size == 0)) {
                taken[p]++;
                take_part(run, part, &message->fields[i + 1], &left);
            }
        }
    }
    take_where(run, message, left);
}

bool outcome_begin_overflow(struct run *run, struct overflows *overflows,
                            void (*on_open)(void *arg), void *arg)
{
    OWNED(buf_done) struct buf before = BUF_EMPTY;
    if (output_append_raw(&run->output, &before) == 0 &&
        output_append_raw(&run->errors, &before) == 0) {
        run->overflow =
            overflow_begin(overflows, run->job ? "job" : "output", run->job, &before, on_open, arg);
    }
    return run->overflow != NULL;
}

bool outcome_take_output(struct run *run, struct overflows *overflows, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg)
{
    bool separate = server_box_spec(overflows->server_box)->separate_streams;
    struct output *output = separate && stream == BOX_STDERR ? &run->errors : &run->output;
    bool begun = !run->overflow && output_overflows(output, piece.data, piece.size) &&
                 outcome_begin_overflow(run, overflows, on_open, arg);
    if (run->overflow) {
        overflow_add(run->overflow, piece.data, piece.size);
    }
    output_add(output, (unsigned)stream, piece.data, piece.size);
    recorded_output(run, (unsigned)stream, piece.data, piece.size);
    if (run->job) {
        run_add_news(run, piece.data, piece.size);
    }
    return begun;
}

int outcome_exit_code(const struct box_message *message)
{
    uint64_t value = box_message_number(message, "exit_code", 1);
    return value < 256 ? (int)value : 1;
}

const char *outcome_end_text(const struct box_end *end, char out[64])
{
    const char *name = end->kind == BOX_END_SIGNAL ? sigabbrev_np(end->code) : NULL;
    if (end->kind == BOX_END_EXIT) {
        (void)snprintf(out, 64, "exit status %d", end->code);
        return out;
    }
    (void)snprintf(out, 64, "%s%s",
                   name ? "SIG"
                   : end->kind == BOX_END_OOM
                       ? end->blame != BOX_BLAME_ITS_OWN
                             ? "out of memory, which another session has filled"
                             : "out of memory"
                   : end->kind == BOX_END_DISK ? "disk full"
                                               : "it was killed",
                   name ? name : "");
    return out;
}
