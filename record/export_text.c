/* The record as Markdown and as a Python script. */
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "record/escape.h"
#include "record/export.h"
#include "record/show.h"

record_export_fn record_export_find(const char *format)
{
    static const struct {
        const char *name;
        record_export_fn fn;
    } rows[] = {{"html", record_export_html},
                {"ipynb", record_export_ipynb},
                {"md", record_export_md},
                {"py", record_export_py}};
    for (unsigned i = 0; format && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(format, rows[i].name) == 0) {
            return rows[i].fn;
        }
    }
    return NULL;
}

const char *record_image_type(const json_t *data)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    const char *text = json_string_value(data);
    if (!text || strspn(text, alphabet) != json_string_length(data)) {
        return NULL;
    }
    return strncmp(text, "iVBORw0KGgo", 11) == 0 ? "image/png"
           : strncmp(text, "/9j/", 4) == 0       ? "image/jpeg"
                                                 : NULL;
}

bool record_is_of(const struct record_entry *entry, const char *session)
{
    const char *of = record_text(entry->event, "session");
    return !session || !of[0] || strcmp(of, session) == 0;
}

void record_join_output(const json_t *result, const char *stream, struct buf *out)
{
    size_t i = 0;
    json_t *piece = NULL;
    json_array_foreach (json_object_get(result, "output"), i, piece) {
        const json_t *text = json_array_get(piece, 1);
        if (!stream || strcmp(json_string_value(json_array_get(piece, 0)), stream) == 0) {
            buf_append(out, json_string_value(text), json_string_length(text));
        }
    }
}

static void append_name(const struct record_entry *entry, struct buf *out)
{
    const char *fate = strcmp(entry->kind, "cell") == 0 ? record_fate_text(entry->fate) : "";
    record_title(entry, out);
    buf_appendf(out, "%s%s", fate[0] ? ": " : "", fate);
}

/* Appends a text after mark. */
typedef void (*append_fn)(struct buf *out, const char *mark, const char *text, size_t size);

static void append_member(struct buf *out, append_fn fn, const char *mark, const json_t *object,
                          const char *name)
{
    fn(out, mark, record_text(object, name), json_string_length(json_object_get(object, name)));
}

struct marks {
    const char *plain; /* of what was printed, of a traceback, and of another call's result */
    const char *value;
    const char *hint;
    const char *status;
};

static void append_result(struct buf *out, append_fn fn, const struct marks *marks,
                          const struct record_entry *entry)
{
    OWNED(buf_done) struct buf printed = BUF_EMPTY;
    OWNED(buf_done) struct buf content = BUF_EMPTY;
    size_t i = 0;
    json_t *block = NULL;
    record_join_output(entry->result, /* stream= */ NULL, &printed);
    fn(out, marks->plain, buf_bytes(&printed), buf_size(&printed));
    append_member(out, fn, marks->value, entry->result, "value");
    append_member(out, fn, marks->plain, entry->result, "traceback");
    append_member(out, fn, marks->hint, entry->result, "hint");
    json_array_foreach (json_object_get(entry->event, "content"), i, block) {
        const json_t *text = json_object_get(block, "text");
        buf_append(&content, json_string_value(text), json_string_length(text));
    }
    fn(out, marks->plain, buf_bytes(&content), buf_size(&content));
    append_member(out, fn, marks->status, entry->result, "status");
}

/* --- Markdown --- */

void record_export_md(const struct record_book *book, const char *session, struct buf *out,
                      struct buf *)
{
    static const struct marks marks = {"", "", "", ""};
    buf_append_text(out, "# A record of Sandpiper\n\n");
    record_fence(out, "", book->name, strlen(book->name));
    for (size_t i = 0; i < book->count; i++) {
        const struct record_entry *entry = &book->entries[i];
        OWNED(buf_done) struct buf name = BUF_EMPTY;
        if (!record_is_of(entry, session)) {
            continue;
        }
        append_name(entry, &name);
        if (strcmp(entry->kind, "cell") == 0) {
            buf_append_text(out, "## ");
            buf_append_buf(out, &name);
            buf_append_text(out, "\n\n");
        } else { /* it may hold words of the session */
            buf_append_text(out, "## call\n\n");
            record_fence(out, "", buf_bytes(&name), buf_size(&name));
        }
        append_member(out, record_fence, "python", entry->event, "code");
        append_member(out, record_fence, "", json_object_get(entry->event, "arguments"), "content");
        append_result(out, record_fence, &marks, entry);
    }
}

/* --- Python --- */

/* Whether nothing in the code is invisible, or reorders what people see of it. */
static bool is_seen_whole(const char *code, size_t size)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    record_escape(&shown, code, size);
    return buf_size(&shown) == size && memcmp(buf_bytes(&shown), code, size) == 0;
}

/* Whether Python's own compiler takes the code as it is, as far as is known without it: nothing
 * that only a notebook understands. */
static bool is_plain_python(const struct record_entry *entry, const char *code, size_t size)
{
    static const char *const words[] = {"await", "async",        "__future__", "global ", "\r",
                                        "\f",    "\xEF\xBB\xBF", "= !",        "= %",     "=!",
                                        "=%"};
    const char *type = record_text(entry->result, "error_type");
    const char *outcome = record_text(entry->result, "outcome");
    bool compiled = (strcmp(outcome, "ok") == 0 || strcmp(outcome, "error") == 0 ||
                     entry->fate == RECORD_CUT) &&
                    !strstr(type, "SyntaxError") && !strstr(type, "IndentationError") &&
                    !strstr(type, "TabError");
    bool indented = code[strspn(code, "\n")] == ' ' || code[strspn(code, "\n")] == '\t';
    bool plain =
        compiled && !indented && size > 0 && strlen(code) == size && code[size - 1] != '\\';
    for (unsigned i = 0; plain && i < sizeof words / sizeof *words; i++) {
        plain = !strstr(code, words[i]);
    }
    for (const char *line = code; plain && line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *first = line + strspn(line, " \t");
        size_t length = strcspn(line, "\n");
        plain = !(*first && strchr("!%?$", *first)) && !(length > 0 && line[length - 1] == '?');
    }
    return plain;
}

static void comment(struct buf *out, const char *prefix, const char *text, size_t size)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    record_escape(&shown, text, size);
    record_append_lines(out, prefix, buf_bytes(&shown), buf_size(&shown));
}

void record_export_py(const struct record_book *book, const char *session, struct buf *out,
                      struct buf *)
{
    static const struct marks marks = {"#   ", "# Out: ", "# Hint: ", "# "};
    buf_append_text(out,
                    "# A record of Sandpiper. Code that would not compile here is a comment.\n");
    for (size_t i = 0; i < book->count; i++) {
        const struct record_entry *entry = &book->entries[i];
        const json_t *code = json_object_get(entry->event, "code");
        OWNED(buf_done) struct buf name = BUF_EMPTY;
        if (!record_is_of(entry, session)) {
            continue;
        }
        append_name(entry, &name);
        buf_append_text(out, "\n# %% ");
        comment(out, "", buf_bytes(&name), buf_size(&name));
        if (record_is_live(entry) && json_string_length(code) > 0 &&
            is_seen_whole(json_string_value(code), json_string_length(code)) &&
            is_plain_python(entry, json_string_value(code), json_string_length(code))) {
            buf_append(out, json_string_value(code), json_string_length(code));
            buf_append_text(out, "\n");
        } else {
            append_member(out, comment, "# code: ", entry->event, "code");
        }
        append_result(out, comment, &marks, entry);
    }
}
