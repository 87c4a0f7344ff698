#include "tools/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"

enum { PLACE_SOURCE_BYTES = 220, DIGITS_MOST = 15 };

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
    run_set_part(run, RUN_WHERE, place, (size_t)length);
}

/* "<cell 7>:4 source", in the guest's words. */
static void take_guest_place(struct run *run, const char *bytes, size_t size)
{
    char text[PLACE_SOURCE_BYTES + 64] = "";
    const char *at = text + strlen("<cell ");
    uint64_t cell = 0;
    uint64_t line = 0;
    memcpy(text, bytes, size < sizeof text ? size : sizeof text - 1);
    if (strncmp(text, "<cell ", strlen("<cell ")) != 0 || parse_digits(at, &cell, &at) < 0 ||
        strncmp(at, ">:", 2) != 0 || parse_digits(at + 2, &line, &at) < 0) {
        return;
    }
    at += *at == ' ';
    set_place(run, cell, line, at, strlen(at));
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
    const char *source = cell == run->cell ? run->code : "";
    for (uint64_t i = 1; i < number && source; i++) {
        source = strchr(source, '\n');
        source = source ? source + 1 : NULL;
    }
    source = source ? source + strspn(source, " \t") : "";
    set_place(run, cell, number, source, strcspn(source, "\n"));
}

void outcome_take_trace(struct run *run, const char *text)
{
    run->stuck = strstr(text, "interrupted") == NULL;
    outcome_take_place(run, text);
}

enum part_form { FORM_TEXT, FORM_LIST, FORM_DIGITS, FORM_PLACE, FORM_NOTE };

static const struct {
    const char *name;
    enum run_part part;
    enum part_form form;
} result_parts[] = {
    {"value", RUN_VALUE, FORM_TEXT},
    {"traceback", RUN_TRACEBACK, FORM_TEXT},
    {"error_type", RUN_ERROR_TYPE, FORM_TEXT},
    {"error_message", RUN_ERROR_MESSAGE, FORM_TEXT},
    {"error_cell", RUN_ERROR_CELL, FORM_DIGITS},
    {"error_line", RUN_ERROR_LINE, FORM_DIGITS},
    {"where", RUN_WHERE, FORM_PLACE},
    {"hint", RUN_HINT, FORM_TEXT},
    {"file", RUN_FILES, FORM_LIST},
    {"file_size", RUN_FILE_SIZES, FORM_LIST},
    {"file_kind", RUN_FILE_KINDS, FORM_LIST},
    {"files_more", RUN_FILES_MORE, FORM_DIGITS},
    {"files_note", RUN_NOTES, FORM_NOTE},
    {"var", RUN_VARS, FORM_LIST},
    {"var_kind", RUN_VAR_KINDS, FORM_LIST},
    {"vars_more", RUN_VARS_MORE, FORM_DIGITS},
    {"note", RUN_NOTES, FORM_NOTE},
    {"image", RUN_IMAGES, FORM_LIST},
    {"cpu_ms", RUN_CPU_MS, FORM_DIGITS},
    {"peak_bytes", RUN_PEAK_BYTES, FORM_DIGITS},
};

static bool is_digits(struct box_field value)
{
    size_t digits = 0;
    while (digits < value.size && value.data[digits] >= '0' && value.data[digits] <= '9') {
        digits++;
    }
    return digits > 0 && digits == value.size && digits <= DIGITS_MOST;
}

static void take_part(struct run *run, enum run_part part, enum part_form form,
                      struct box_field value)
{
    char note[WORD_PHRASE + 1];
    bool once = form == FORM_TEXT || form == FORM_DIGITS || form == FORM_PLACE;
    if ((once && run->parts[part].size > 0) || (form == FORM_DIGITS && !is_digits(value))) {
        return;
    }
    if (form == FORM_PLACE) {
        take_guest_place(run, value.data, value.size);
    } else if (form == FORM_NOTE) {
        (void)word_quote(value.data, value.size, note, sizeof note);
        run_set_part(run, part, note, strlen(note));
    } else {
        run_set_part(run, part, value.data, value.size);
    }
}

void outcome_take_parts(struct run *run, const struct box_message *message)
{
    for (size_t i = 1; i + 1 < message->count; i += 2) {
        for (unsigned p = 0; p < sizeof result_parts / sizeof *result_parts; p++) {
            if (box_field_is(&message->fields[i], result_parts[p].name)) {
                take_part(run, result_parts[p].part, result_parts[p].form, message->fields[i + 1]);
            }
        }
    }
}

bool outcome_take_output(struct run *run, struct spills *spills, enum box_stream stream,
                         struct box_field piece, void (*on_open)(void *arg), void *arg)
{
    OWNED(buf_done) struct buf before = BUF_EMPTY;
    bool separate = workspace_spec(spills->workspace)->separate_streams;
    struct output *output = separate && stream == BOX_STDERR ? &run->errors : &run->output;
    bool begun = false;
    if (!run->spill && output_overflows(output, piece.data, piece.size) &&
        output_append_raw(&run->output, &before) == 0 &&
        output_append_raw(&run->errors, &before) == 0) {
        run->spill = spill_begin(spills, "output", &before, on_open, arg);
        begun = run->spill != NULL;
    }
    if (run->spill) {
        spill_add(run->spill, piece.data, piece.size);
    }
    output_add(output, (unsigned)stream, piece.data, piece.size);
    return begun;
}

uint64_t outcome_number(const struct box_message *message, const char *name)
{
    struct box_field field;
    char text[24] = "";
    uint64_t value = 0;
    if (box_message_get(message, name, &field) && field.size < sizeof text) {
        memcpy(text, field.data, field.size);
    }
    return parse_u64(text, &value) == 0 ? value : 0;
}

int outcome_exit_code(const struct box_message *message)
{
    struct box_field field;
    char text[16] = "";
    uint64_t value = 0;
    if (box_message_get(message, "exit_code", &field) && field.size < sizeof text) {
        memcpy(text, field.data, field.size);
    }
    return parse_u64(text, &value) == 0 && value < 256 ? (int)value : 1;
}

static enum run_outcome outcome_of_kill(const struct run *run)
{
    return run->cancelled ? RUN_CANCELLED : RUN_TIMEOUT;
}

enum run_outcome outcome_of_end(struct run *run, const struct box_end *end, bool killed)
{
    run->code_number = end->code;
    run->used_bytes = end->used_bytes;
    run->limit_bytes = end->limit_bytes;
    run->used_files = end->used_files;
    run->limit_files = end->limit_files;
    switch (end->kind) {
    case BOX_END_EXIT:
        return RUN_EXIT;
    case BOX_END_SIGNAL:
        return killed ? outcome_of_kill(run) : RUN_CRASHED;
    case BOX_END_OOM:
        return RUN_OOM;
    case BOX_END_DISK:
        return RUN_DISK;
    case BOX_END_LOST:
        return RUN_LOST;
    case BOX_END_REFUSED:
    case BOX_END_KILLED:
    default:
        return killed ? outcome_of_kill(run) : RUN_ENDED;
    }
}

const char *outcome_end_text(const struct box_end *end, char out[64])
{
    const char *name = end->kind == BOX_END_SIGNAL ? sigabbrev_np(end->code) : NULL;
    (void)snprintf(out, 64, "%s%s",
                   name                        ? "SIG"
                   : end->kind == BOX_END_OOM  ? "out of memory"
                   : end->kind == BOX_END_DISK ? "too much on the disk"
                   : end->kind == BOX_END_EXIT ? "it exited"
                                               : "it was killed",
                   name ? name : "");
    return out;
}
