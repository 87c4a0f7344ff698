#include "record/show.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/own.h"
#include "record/escape.h"

static const char *const plain[] = {"", "", "", "", ""};
static const char *const coloured[] = {"\033[0m", "\033[1m", "\033[2m", "\033[36m", "\033[31m"};
enum colour { NORMAL, BOLD, DIM, CODE, WRONG };

struct page {
    struct buf *out;
    const char *const *colours;
};

void record_fill(struct buf *out, const json_t *object, const char *text,
                 void (*escape)(struct buf *out, const char *text, size_t size))
{
    while (*text) {
        size_t size = strcspn(text, "{");
        char name[32];
        buf_append(out, text, size);
        text += size;
        if (*text) {
            size = strcspn(text, "}");
            (void)snprintf(name, sizeof name, "%.*s", (int)size - 1, text + 1);
            const json_t *value = json_object_get(object, name);
            if (json_is_integer(value)) {
                buf_appendf(out, "%lld", (long long)json_integer_value(value));
            } else {
                escape(out, record_text(object, name), json_string_length(value));
            }
            text += size + 1;
        }
    }
}

static void fill(struct buf *out, const json_t *object, const char *text)
{
    record_fill(out, object, text, record_escape_line);
}

/* Appends several lines in one colour, indented. */
static void block(const struct page *page, enum colour colour, const char *prefix,
                  const json_t *value)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (json_string_length(value) == 0) {
        return;
    }
    record_escape(&text, json_string_value(value), json_string_length(value));
    buf_append_text(page->out, page->colours[colour]);
    record_append_lines(page->out, prefix, buf_bytes(&text), buf_size(&text));
    buf_append_text(page->out, page->colours[NORMAL]);
}

void record_clock(const json_t *event, struct buf *out)
{
    const char *time = record_text(event, "time");
    record_escape_line(out, time + (strlen(time) > 19 ? 11 : 0), strlen(time) > 19 ? 8 : 0);
}

/* --- show --- */

static void show_output(const struct page *page, const json_t *result)
{
    size_t i = 0;
    json_t *piece = NULL;
    json_array_foreach (json_object_get(result, "output"), i, piece) {
        bool is_error = strcmp(json_string_value(json_array_get(piece, 0)), "stderr") == 0;
        block(page, is_error ? WRONG : NORMAL, "  ", json_array_get(piece, 1));
    }
    json_int_t bytes = record_number(result, "output_bytes", 0);
    if (bytes > 0) {
        buf_appendf(page->out, "  [%s%lld bytes of output in all]\n",
                    json_object_get(result, "output") ? "cut: " : "left out: ", (long long)bytes);
    }
}

static void show_images(const struct page *page, const json_t *result)
{
    size_t i = 0;
    json_t *path = NULL;
    json_array_foreach (json_object_get(result, "image_files"), i, path) {
        if (json_is_string(path)) {
            buf_append_text(page->out, "  [figure ");
            record_escape_line(page->out, json_string_value(path), json_string_length(path));
            buf_append_text(page->out, "]\n");
        }
    }
}

static void show_head(const struct page *page, const struct record_entry *entry, bool has_session,
                      const char *fate)
{
    struct buf *out = page->out;
    buf_append_text(out, page->colours[BOLD]);
    record_title(entry, out);
    buf_append_text(out, page->colours[NORMAL]);
    if (has_session) {
        fill(out, entry->event, "  session {session}");
    }
    buf_append_text(out, "  ");
    record_clock(entry->event, out);
    if (fate[0]) {
        buf_appendf(out, "  %s(%s)%s", page->colours[WRONG], fate, page->colours[NORMAL]);
    }
    buf_append_text(out, "\n");
}

static void show_cell(const struct page *page, const struct record_entry *entry)
{
    const json_t *result = entry->result;
    show_head(page, entry, strcmp(record_text(entry->event, "session"), "default") != 0,
              record_fate_text(entry->fate));
    block(page, CODE, "| ", json_object_get(entry->event, "code"));
    show_output(page, result);
    block(page, NORMAL, "  Out: ", json_object_get(result, "value"));
    block(page, WRONG, "  ", json_object_get(result, "traceback"));
    block(page, NORMAL, "  Hint: ", json_object_get(result, "hint"));
    block(page, NORMAL, "  ", json_object_get(result, "refusal"));
    show_images(page, result);
    block(page, DIM, "  ", json_object_get(result, "status"));
    buf_append_text(page->out, "\n");
}

static void list_installed(struct buf *out, const json_t *event)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(event, "installed"), i, item) {
        fill(out, item, i ? ", {name} {version}" : ": {name} {version}");
    }
}

void record_title(const struct record_entry *entry, struct buf *out)
{
    static const char *const rows[][2] = {
        {"network", "network {host}:{port} {decision}: {rule}"},
        {"missed", "{missed} more connections or calls of tools by code, of which nothing is here"},
        {"question", "asked the user: {subject}: {answer}"},
        {"undo", "{text}"},
        {"restore", "{text}"},
        {"checkpoint", "checkpoint \"{name}\" {saved}"},
        {"job", "goes on as job {job}"},
    };
    const json_t *event = entry->event;
    const json_t *arguments = json_object_get(event, "arguments");
    const char *kind = entry->kind;
    const char *text = NULL;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        text = strcmp(kind, rows[i][0]) == 0 ? rows[i][1] : text;
    }
    if (text) {
        fill(out, event, text);
    } else if (strcmp(kind, "cell") == 0) {
        fill(out, event, record_number(event, "cell", 0) > 0 ? "cell {cell}" : "no cell");
    } else if (strcmp(kind, "install") == 0) {
        bool failed = json_is_true(json_object_get(event, "failed"));
        fill(out, event, failed ? "not installed: {message}" : "installed{message}");
        list_installed(out, event);
    } else if (record_text(event, "tool")[0]) {
        fill(out, event, "{tool}");
        fill(out, arguments, record_text(arguments, "path")[0] ? " {path}" : "");
    } else {
        record_escape_line(out, kind, strlen(kind));
    }
}

static void show_other(const struct page *page, const struct record_entry *entry)
{
    size_t i = 0;
    json_t *block_of = NULL;
    show_head(page, entry, /* has_session= */ false, "");
    if (strcmp(entry->kind, "write") == 0) {
        block(page, CODE, "| ",
              json_object_get(json_object_get(entry->event, "arguments"), "content"));
    }
    json_array_foreach (json_object_get(entry->event, "content"), i, block_of) {
        block(page, DIM, "  ", json_object_get(block_of, "text"));
    }
    buf_append_text(page->out, "\n");
}

static void show_start(const struct page *page, const struct record_book *book)
{
    struct buf *out = page->out;
    buf_appendf(out, "%s%s%s\n", page->colours[BOLD], book->name, page->colours[NORMAL]);
    fill(out, book->start,
         "Sandpiper {version}, isolation level {isolation}, CPython {python}\n\n");
}

void record_show(const struct record_book *book, bool colours, struct buf *out)
{
    const struct page page = {out, colours ? coloured : plain};
    show_start(&page, book);
    for (size_t i = 0; i < book->count; i++) {
        const struct record_entry *entry = &book->entries[i];
        if (strcmp(entry->kind, "cell") == 0) {
            show_cell(&page, entry);
        } else {
            show_other(&page, entry);
        }
    }
    if (book->end) {
        fill(out, book->end, "The server exited: {why}\n");
    }
}

/* --- list and check --- */

enum { HOST_BYTES = 64 };

static time_t time_of(const json_t *event)
{
    struct tm utc = {};
    (void)strptime(record_text(event, "time"), "%Y-%m-%dT%H:%M:%S", &utc);
    return timegm(&utc);
}

void record_summary(const struct record_book *book, struct buf *out)
{
    size_t cells = 0;
    const json_t *last = json_array_get(book->events, json_array_size(book->events) - 1);
    long seconds = (long)(time_of(last) - time_of(book->start));
    for (size_t i = 0; i < book->count; i++) {
        cells += strcmp(book->entries[i].kind, "cell") == 0;
    }
    buf_appendf(out, "%-36s %6ld s  %5zu cell%s  ", book->name, seconds > 0 ? seconds : 0, cells,
                cells == 1 ? " " : "s");
    buf_append_text(out, book->reading.why[0]    ? "damaged  "
                         : book->reading.altered ? "altered  "
                         : !book->reading.ended  ? "without its end  "
                                                 : "");
    const char *host = record_text(book->start, "host");
    record_escape_line(out, host, strnlen(host, HOST_BYTES));
    buf_append_text(out, "\n");
}

bool record_verdict(const struct record_reading *reading, struct buf *out)
{
    buf_appendf(out, "%zu line%s, last hash %s\n", reading->lines, reading->lines == 1 ? "" : "s",
                reading->hash);
    if (reading->altered > 0 || reading->why[0]) {
        if (reading->altered > 0) {
            buf_appendf(out, "line %zu was altered, missing or moved\n", reading->altered);
        }
        if (reading->why[0]) {
            buf_appendf(out, "%s\n", reading->why);
        }
        return false;
    }
    buf_append_text(out, reading->torn ? "the last line is torn\n"
                         : reading->ended
                             ? "whole\n"
                             : "ends without \"end\": the server was killed, or lines are missing "
                               "at the end\n");
    return true;
}

/* --- why --- */

/* The setting that decides about an outcome, or NULL. */
static const char *setting_of(const char *outcome)
{
    static const char *const rows[][2] = {{"timeout", "timeout"},
                                          {"out_of_memory", "memory"},
                                          {"disk_full", "disk"},
                                          {"stopped", "jobs"}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(outcome, rows[i][0]) == 0) {
            return rows[i][1];
        }
    }
    return NULL;
}

/* Appends "  setting: --memory 1G (command line)". flag: its name, maybe with dashes and a value
 * after it. */
static void append_setting(const struct record_book *book, const char *flag, struct buf *out)
{
    size_t i = 0;
    json_t *row = NULL;
    flag += strspn(flag, "-");
    size_t size = strcspn(flag, " =");
    json_array_foreach (json_object_get(book->start, "settings"), i, row) {
        const char *name = record_text(row, "name");
        if (strlen(name) == size && strncmp(name, flag, size) == 0) {
            fill(out, row, "  setting: --{name} {value} ({source})\n");
        }
    }
}

static void why_cell(const struct record_book *book, const struct record_entry *entry,
                     struct buf *out)
{
    const json_t *result = entry->result;
    const char *outcome = record_text(result, "outcome");
    const char *setting = setting_of(outcome);
    bool ended = setting || strcmp(outcome, "refused") == 0 || strcmp(outcome, "crashed") == 0 ||
                 strcmp(outcome, "sandbox_exited") == 0 || strcmp(outcome, "cancelled") == 0;
    if (!ended) {
        return;
    }
    buf_appendf(out, "cell %lld: ", (long long)record_number(entry->event, "cell", 0));
    fill(out, result, record_text(result, "refusal")[0] ? "{refusal}\n" : "{status}\n");
    if (setting && strcmp(setting, "timeout") == 0 &&
        json_object_get(json_object_get(entry->event, "arguments"), "timeout_s")) {
        buf_append_text(out, "  setting: timeout_s of the call\n");
        setting = "max-timeout";
    }
    if (setting) {
        append_setting(book, setting, out);
    }
}

static void why_other(const struct record_book *book, const struct record_entry *entry,
                      struct buf *out)
{
    const json_t *event = entry->event;
    bool network = strcmp(entry->kind, "network") == 0 &&
                   strcmp(record_text(event, "decision"), "allowed") != 0;
    bool declined = strcmp(entry->kind, "question") == 0 &&
                    strcmp(record_text(event, "answer"), "allowed") != 0;
    bool failed = json_is_true(json_object_get(event, "failed"));
    bool refused =
        record_text(event, "tool")[0] && json_is_true(json_object_get(event, "is_error"));
    bool missed = strcmp(entry->kind, "missed") == 0;
    if (!missed && !network && !declined && !failed && !refused) {
        return;
    }
    record_title(entry, out);
    buf_append_text(out, "\n");
    if (refused) {
        const json_t *first = json_array_get(json_object_get(event, "content"), 0);
        const struct page page = {out, plain};
        block(&page, NORMAL, "  ", json_object_get(first, "text"));
    }
    append_setting(book,
                   network    ? "allow-host"
                   : declined ? record_text(event, "setting")
                   : failed   ? "install"
                              : "",
                   out);
    if (failed) {
        append_setting(book, "allow-package", out);
        append_setting(book, "deny-package", out);
        append_setting(book, "index-url", out);
    }
}

/* Whether the entry is this cell, or came while it ran. of: the last cell before it, or NULL. */
static bool belongs_to(const struct record_entry *entry, const struct record_entry *of,
                       json_int_t cell)
{
    return of && record_number(of->event, "cell", 0) == cell &&
           record_number(entry->event, "seq", 0) < record_number(of->result, "seq", INT64_MAX);
}

bool record_why(const struct record_book *book, json_int_t cell, struct buf *out)
{
    const struct record_entry *of = NULL; /* the last cell */
    size_t before = buf_size(out);
    bool found = cell == 0;
    for (size_t i = 0; i < book->count; i++) {
        const struct record_entry *entry = &book->entries[i];
        bool is_cell = strcmp(entry->kind, "cell") == 0;
        of = is_cell ? entry : of;
        if (cell > 0 && !belongs_to(entry, of, cell)) {
            continue;
        }
        found = true;
        if (is_cell) {
            why_cell(book, entry, out);
        } else {
            why_other(book, entry, out);
        }
    }
    if (buf_size(out) == before) {
        buf_append_text(out,
                        "Nothing that the record knows of was refused or limited; errors of the "
                        "code are in its output.\n");
    }
    return found;
}
