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

static bool is_digits(const struct box_field *value)
{
    size_t digits = 0;
    while (digits < value->size && value->data[digits] >= '0' && value->data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == value->size && digits <= NUMBER_BYTES;
}

static void take_text(struct run *run, enum run_fact fact, const struct box_field *value,
                      size_t fitting)
{
    OWNED(buf_done) struct buf cut = BUF_EMPTY;
    if (fitting == value->size) {
        run_add(run, fact, value->data, value->size);
    } else if (buf_append(&cut, value->data, fitting) == 0 &&
               buf_appendf(&cut, " … (%zu bytes cut)", value->size - fitting) == 0) {
        run_add(run, fact, buf_bytes(&cut), buf_size(&cut));
    }
}

/* left: characters that all parts together may still take; lowered. */
static void take_part(struct run *run, enum run_fact fact, const struct box_field *value,
                      size_t *left)
{
    const struct run_part *part = &run_rows[fact].part;
    char note[WORD_PHRASE + 1];
    bool sound = is_digits(value);
    if (part->form == FORM_JSON) {
        if (value->size <= part->characters) {
            run_add(run, fact, value->data, value->size);
        }
        return;
    }
    size_t space = part->characters < *left ? part->characters : *left;
    size_t rest = space;
    size_t fitting = rpc_text_fitting(value->data, value->size, &rest);
    *left -= space - rest;
    switch (part->form) {
    case FORM_DIGITS:
        /* An empty item stands for one of a list that is no number: it keeps its place beside those
         * of other lists. */
        if (sound || part->most > 0) {
            run_add(run, fact, value->data, sound ? value->size : 0);
        }
        break;
    case FORM_PATH:
        if (fitting == value->size && !memchr(value->data, '\n', value->size)) {
            run_add(run, fact, value->data, value->size);
        }
        break;
    case FORM_NOTE:
        (void)word_quote(value->data, fitting, note, sizeof note);
        run_add(run, fact, note, strlen(note));
        break;
    case FORM_TEXT:
    case FORM_JSON:
    default:
        take_text(run, fact, value, fitting);
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
    unsigned taken[RUN_FACT_COUNT] = {};
    size_t left = LIMIT_RESULT_CHARS;
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        for (enum run_fact fact = 0; fact < RUN_FACT_COUNT; fact++) {
            const struct run_part *part = &run_rows[fact].part;
            unsigned most = part->most > 0 ? part->most : 1;
            if (part->name && box_field_is(&message->fields[i], part->name) && taken[fact] < most &&
                (part->most > 0 || run->facts[fact].size == 0)) {
                taken[fact]++;
                take_part(run, fact, &message->fields[i + 1], &left);
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
