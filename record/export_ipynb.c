/* A notebook, nbformat 4.5. What led to the final state of one session are code cells, so that "Run
 * All" repeats it; the rest is Markdown between fences. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/parse.h"
#include "record/escape.h"
#include "record/export.h"
#include "rpc/text.h"

static json_t *text_new(const struct buf *text)
{
    return rpc_text(buf_bytes(text), buf_size(text));
}

static void add_cell(json_t *cells, json_t *cell)
{
    char id[24];
    (void)snprintf(id, sizeof id, "c%zu", json_array_size(cells));
    (void)json_object_set_new(cell, "id", json_string(id));
    (void)json_array_append_new(cells, cell);
}

static void add_markdown(json_t *cells, const struct buf *text)
{
    add_cell(cells, json_pack("{s:s, s:{}, s:o}", "cell_type", "markdown", "metadata", "source",
                              text_new(text)));
}

/* source, outputs, metadata: stolen. */
static void add_code(json_t *cells, json_t *source, json_t *outputs, json_t *metadata)
{
    add_cell(cells, json_pack("{s:s, s:n, s:o, s:o, s:o}", "cell_type", "code", "execution_count",
                              "metadata", metadata, "source", source, "outputs", outputs));
}

/* --- outputs --- */

static json_t *lines_of(const char *text)
{
    json_t *lines = json_array();
    while (*text) {
        size_t size = strcspn(text, "\n");
        (void)json_array_append_new(lines, rpc_text(text, size));
        text += size + (text[size] == '\n');
    }
    return lines;
}

/* Whether the figure is one that a notebook shows: not a file that the code has saved. */
static bool is_displayed(const json_t *result, size_t number)
{
    const json_t *paths = json_object_get(result, "image_files");
    const char *path = json_string_value(json_array_get(paths, number));
    return path && strncmp(path, "/tmp/figures/", strlen("/tmp/figures/")) == 0;
}

/* New: the value as Python shows it, without the line that names its figure. */
static json_t *value_of(const json_t *result)
{
    const char *text = record_text(result, "value");
    size_t size = json_string_length(json_object_get(result, "value"));
    size_t first = *text == '\n'; /* before a value of several lines */
    const char *figure = strstr(text + first, "\n[image: ");
    return rpc_text(text + first, figure ? (size_t)(figure - text) - first : size - first);
}

static json_t *outputs_of(const json_t *result)
{
    json_t *outputs = json_array();
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(result, "output"), i, item) {
        bool is_error = strcmp(json_string_value(json_array_get(item, 0)), "stderr") == 0;
        (void)json_array_append_new(outputs, json_pack("{s:s, s:s, s:O}", "output_type", "stream",
                                                       "name", is_error ? "stderr" : "stdout",
                                                       "text", json_array_get(item, 1)));
    }
    json_array_foreach (json_object_get(result, "images"), i, item) {
        const char *type = record_image_type(json_object_get(item, "data"));
        if (type && is_displayed(result, i)) {
            (void)json_array_append_new(
                outputs, json_pack("{s:s, s:{s:O}, s:{}}", "output_type", "display_data", "data",
                                   type, json_object_get(item, "data"), "metadata"));
        }
    }
    if (json_object_get(result, "value")) {
        (void)json_array_append_new(outputs, json_pack("{s:s, s:n, s:{s:o}, s:{}}", "output_type",
                                                       "execute_result", "execution_count", "data",
                                                       "text/plain", value_of(result), "metadata"));
    }
    if (strcmp(record_text(result, "outcome"), "exit") == 0) {
        (void)json_array_append_new(
            outputs,
            json_pack("{s:s, s:s, s:o, s:[]}", "output_type", "error", "ename", "SystemExit",
                      "evalue",
                      json_sprintf("%lld", (long long)record_number(result, "exit_code", 0)),
                      "traceback"));
    } else if (record_text(result, "traceback")[0]) {
        (void)json_array_append_new(outputs,
                                    json_pack("{s:s, s:s, s:s, s:o}", "output_type", "error",
                                              "ename", record_text(result, "error_type"), "evalue",
                                              record_text(result, "error_message"), "traceback",
                                              lines_of(record_text(result, "traceback"))));
    }
    return outputs;
}

/* --- cells --- */

/* Appends the cell's fate and its status line. */
static void append_fate(struct buf *text, const struct record_entry *entry)
{
    const json_t *status = json_object_get(entry->result, "status");
    buf_appendf(text, "**cell %lld: %s**%s\n\n", (long long)record_number(entry->event, "cell", 0),
                record_fate_text(entry->fate),
                entry->fate == RECORD_CUT ? "; here nothing interrupts it" : "");
    record_fence(text, "", json_string_value(status), json_string_length(status));
}

static void add_live(json_t *cells, const struct record_entry *entry)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    if (entry->fate == RECORD_CUT) {
        append_fate(&text, entry);
        add_markdown(cells, &text);
    }
    bool raised = record_text(entry->result, "traceback")[0] ||
                  strcmp(record_text(entry->result, "outcome"), "ok") != 0;
    json_t *metadata = raised ? json_pack("{s:[s]}", "tags", "raises-exception") : json_object();
    add_code(cells, json_incref(json_object_get(entry->event, "code")), outputs_of(entry->result),
             metadata);
}

static void add_other(json_t *cells, const struct record_entry *entry)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    OWNED(buf_done) struct buf printed = BUF_EMPTY;
    const json_t *code = json_object_get(entry->event, "code");
    append_fate(&text, entry);
    record_fence(&text, "python", json_string_value(code), json_string_length(code));
    record_join_output(entry->result, /* stream= */ NULL, &printed);
    record_fence(&text, "", buf_bytes(&printed), buf_size(&printed));
    add_markdown(cells, &text);
}

/* Appends a string as a literal of Python: JSON's without surrogates is one. */
static void append_literal(struct buf *out, const json_t *value)
{
    defer_free char *text = json_is_string(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    buf_append_text(out, text ? text : "\"\"");
}

/* New: the path below the notebook's directory, which stands for the workspace; NULL: it is
 * elsewhere, where a notebook that runs without a sandbox should not write. */
static json_t *path_of(const json_t *arguments)
{
    static const char work[] = "/work/";
    const char *path = record_text(arguments, "path");
    path += strncmp(path, work, sizeof work - 1) == 0 ? sizeof work - 1 : 0;
    return path[0] == '/' || strstr(path, "..") ? NULL : json_string(path);
}

static bool add_write(json_t *cells, const struct record_entry *entry)
{
    const json_t *arguments = json_object_get(entry->event, "arguments");
    const char *mode = record_text(arguments, "mode");
    bool base64 = strcmp(record_text(arguments, "encoding"), "base64") == 0;
    json_auto_t *path = path_of(arguments);
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    if (!path || json_is_true(json_object_get(entry->event, "is_error")) ||
        json_object_get(entry->event, "cut")) {
        return false;
    }
    buf_append_text(&code, "# write_file\nimport base64, pathlib\npath = pathlib.Path(");
    append_literal(&code, path);
    buf_append_text(&code, ")\npath.parent.mkdir(parents=True, exist_ok=True)\n");
    if (json_object_get(arguments, "old_text")) {
        buf_append_text(&code,
                        "text = path.read_text(encoding=\"utf-8\")\n"
                        "_ = path.write_text(text.replace(");
        append_literal(&code, json_object_get(arguments, "old_text"));
        buf_append_text(&code, ", ");
        append_literal(&code, json_object_get(arguments, "new_text"));
        buf_append_text(&code, ", 1), encoding=\"utf-8\")\n");
    } else {
        buf_appendf(&code, "with path.open(\"%s\") as file:\n    _ = file.write(",
                    strcmp(mode, "append") == 0 ? "ab" : "wb");
        buf_append_text(&code, base64 ? "base64.b64decode(" : "");
        append_literal(&code, json_object_get(arguments, "content"));
        buf_append_text(&code, base64 ? "))\n" : ".encode())\n");
    }
    add_code(cells, text_new(&code), json_array(), json_object());
    return true;
}

static bool is_word(const char *text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        "._-+!";
    return text[0] && text[0] != '-' && text[strspn(text, letters)] == '\0';
}

static bool add_install(json_t *cells, const struct record_entry *entry)
{
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    size_t i = 0;
    json_t *item = NULL;
    unsigned count = 0;
    buf_append_text(&code, "%pip install --quiet");
    json_array_foreach (json_object_get(entry->event, "installed"), i, item) {
        const char *name = record_text(item, "name");
        const char *version = record_text(item, "version");
        if (is_word(name) && is_word(version)) {
            buf_appendf(&code, " %s==%s", name, version);
            count++;
        }
    }
    if (count > 0) {
        add_code(cells, text_new(&code), json_array(), json_object());
    }
    return count > 0;
}

/* --- the notebook --- */

static void add_first(json_t *cells, const struct record_book *book)
{
    static const char *const shown[] = {"workspace",  "mount",      "allow-host", "index-url",
                                        "find-links", "preinstall", NULL};
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    OWNED(buf_done) struct buf list = BUF_EMPTY;
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach (json_object_get(book->start, "settings"), i, row) {
        const char *name = record_text(row, "name");
        if (parse_is_among(name, shown)) {
            buf_appendf(&list, "%-11s %s\n", name, record_text(row, "value"));
        }
    }
    buf_appendf(&list, "%-11s %s\n", "packages", record_text(book->start, "packages"));
    buf_append_text(&text,
                    "# A session of Sandpiper\n\nIts directories, remote hosts and "
                    "packages:\n\n");
    record_fence(&text, "", buf_bytes(&list), buf_size(&list));
    add_markdown(cells, &text);
}

/* The session of the notebook: the named one, else the default one, else the first. */
static const char *choose(const struct record_book *book, const char *session)
{
    const char *first = NULL;
    for (size_t i = 0; !session && i < book->count; i++) {
        const char *of = record_text(book->entries[i].event, "session");
        if (strcmp(book->entries[i].kind, "cell") == 0) {
            session = strcmp(of, "default") == 0 ? "default" : NULL;
            first = first ? first : of;
        }
    }
    return session ? session : first ? first : "default";
}

void record_export_ipynb(const struct record_book *book, const char *session, struct buf *out,
                         struct buf *notes)
{
    json_t *cells = json_array();
    size_t other = 0;
    size_t files = 0;
    session = choose(book, session);
    add_first(cells, book);
    for (size_t i = 0; i < book->count; i++) {
        const struct record_entry *entry = &book->entries[i];
        if (strcmp(entry->kind, "write") == 0) {
            files += !add_write(cells, entry);
        } else if (strcmp(entry->kind, "install") == 0) {
            (void)add_install(cells, entry);
        } else if (strcmp(entry->kind, "cell") != 0) {
            continue;
        } else if (strcmp(record_text(entry->event, "session"), session) != 0) {
            other++;
        } else if (record_is_live(entry)) {
            add_live(cells, entry);
        } else if (json_string_length(json_object_get(entry->event, "code")) > 0) {
            add_other(cells, entry);
        }
    }
    json_auto_t *notebook =
        json_pack("{s:o, s:{s:{s:s, s:s, s:s}, s:{s:s}}, s:i, s:i}", "cells", cells, "metadata",
                  "kernelspec", "display_name", "Python 3", "language", "python", "name", "python3",
                  "language_info", "name", "python", "nbformat", 4, "nbformat_minor", 5);
    defer_free char *text =
        notebook ? json_dumps(notebook, JSON_INDENT(1) | JSON_ENSURE_ASCII) : NULL;
    buf_append_text(out, text ? text : "");
    buf_append_text(out, "\n");
    if (other > 0) {
        buf_appendf(notes, "left out: %zu cell%s of other sessions (--session)", other,
                    other == 1 ? "" : "s");
    }
    if (files > 0) {
        buf_appendf(notes, "%s%zu call%s of write_file (refused, cut, or outside of the workspace)",
                    other ? "; " : "left out: ", files, files == 1 ? "" : "s");
    }
}
