/* The page: it has no script, loads nothing, and its policy allows neither. All text of the
 * session passes through record_escape_html(). */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "record/escape.h"
#include "record/export.h"
#include "record/show.h"
#include "view/page.h"

enum { LINES_SHOWN = 30, OUTLINE_BYTES = 60 };

static const char page_begin[] =
    "<!doctype html>\n<html lang=\"en\"><head>"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; img-src data:\">"
    "<meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

/* What a page of many results needs beside the look that it shares with the view of one. */
static const char page_style[] =
    "body{margin:0 auto;max-width:72rem;padding:1rem;display:grid;gap:0 2rem;"
    "grid-template-columns:minmax(0,1fr)}\n"
    "h1{font-size:1.15rem;margin:0}\n"
    "header p{margin:.2rem 0 1rem;color:var(--dim)}\n"
    "section{border-top:1px solid var(--line);padding:.7rem 0;scroll-margin-top:.5rem}\n"
    "h2{font-size:.9rem;margin:0 0 .35rem;display:flex;gap:.7rem;flex-wrap:wrap;"
    "align-items:baseline}\n"
    "h2 time{color:var(--dim);font-weight:400}\n"
    "h2 em{font-style:normal;font-weight:400;color:var(--warn)}\n"
    ".out{margin:.45rem .7rem 0}.status{color:var(--dim);padding:.45rem .7rem 0}\n"
    ".ok h2 span{color:var(--ok)}.bad h2 span,nav .bad{color:var(--bad)}\n"
    ".off .code,.off .out{opacity:.65}.off h2 span{color:inherit}\n"
    "img{margin:.5rem .7rem}summary{color:var(--dim);padding:.3rem .7rem}\n"
    "nav ol{list-style:none;margin:0;padding:0;font-size:.8125rem}\n"
    "nav a{display:block;color:inherit;text-decoration:none;padding:.1rem .4rem;"
    "border-radius:4px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}\n"
    "nav a:hover{background:var(--soft)}nav .off{color:var(--dim)}\n"
    "header td{white-space:normal;vertical-align:top}\n"
    "@media(min-width:62rem){body{grid-template-columns:15rem minmax(0,1fr)}"
    "header{grid-column:1/3}nav{position:sticky;top:1rem;align-self:start;max-height:95vh;"
    "overflow:auto}}\n"
    "</style>";

static void append_style(struct buf *out)
{
    const struct embedded *css = view_catalog;
    while (strcmp(css->name, "view.css") != 0) {
        css++;
    }
    buf_append_text(out, "<style>\n");
    buf_append(out, css->data, css->size);
    buf_append_text(out, page_style);
}

/* Appends text as a block; a long one is folded. */
static void append_block(struct buf *out, const char *class, const char *before, const char *text,
                         size_t size)
{
    size_t lines = 0;
    if (size == 0) {
        return;
    }
    for (const char *at = text; (at = memchr(at, '\n', size - (size_t)(at - text))); at++) {
        lines++;
    }
    bool folded = lines > LINES_SHOWN;
    if (folded) {
        buf_appendf(out, "<details><summary>%zu lines</summary>", lines);
    }
    buf_appendf(out, "<pre class=\"%s\">%s", class, before);
    record_escape_html(out, text, size);
    buf_append_text(out, folded ? "</pre></details>\n" : "</pre>\n");
}

static void append_text(struct buf *out, const char *class, const char *before,
                        const json_t *object, const char *name)
{
    append_block(out, class, before, record_text(object, name),
                 json_string_length(json_object_get(object, name)));
}

static void append_output(struct buf *out, const json_t *result)
{
    size_t i = 0;
    json_t *piece = NULL;
    json_array_foreach (json_object_get(result, "output"), i, piece) {
        const json_t *text = json_array_get(piece, 1);
        bool is_error = strcmp(json_string_value(json_array_get(piece, 0)), "stderr") == 0;
        append_block(out, is_error ? "out err" : "out", "", json_string_value(text),
                     json_string_length(text));
    }
    json_int_t bytes = record_number(result, "output_bytes", 0);
    if (bytes > 0) {
        buf_appendf(out, "<p class=\"status\">%s%lld bytes of output in all</p>\n",
                    json_object_get(result, "output") ? "cut: " : "left out: ", (long long)bytes);
    }
}

static void append_images(struct buf *out, const json_t *images)
{
    size_t i = 0;
    json_t *image = NULL;
    json_array_foreach (images, i, image) {
        const json_t *data = json_object_get(image, "data");
        const char *type = record_image_type(data);
        if (type) {
            buf_appendf(out, "<img alt=\"figure %zu\" src=\"data:%s;base64,", i + 1, type);
            buf_append(out, json_string_value(data), json_string_length(data));
            buf_append_text(out, "\">\n");
        }
    }
}

static const char *class_of(const struct record_entry *entry)
{
    bool is_cell = strcmp(entry->kind, "cell") == 0;
    const json_t *event = is_cell ? entry->result : entry->event;
    bool wrong = json_is_true(json_object_get(event, "is_error")) ||
                 json_is_true(json_object_get(event, "failed")) ||
                 strcmp(record_text(event, "decision"), "refused") == 0;
    return is_cell && !record_is_live(entry) && entry->fate != RECORD_DROPPED &&
                   entry->fate != RECORD_BRANCH
               ? (wrong ? "off bad" : "off")
           : wrong ? "bad"
                   : "ok";
}

static void escape_line(struct buf *out, const struct buf *line)
{
    record_escape_html(out, buf_bytes(line), buf_size(line));
}

static void append_clock(struct buf *out, const json_t *event)
{
    OWNED(buf_done) struct buf clock = BUF_EMPTY;
    record_clock(event, &clock);
    buf_append_text(out, "<time>");
    escape_line(out, &clock);
    buf_append_text(out, "</time>");
}

static void append_name(struct buf *out, const struct record_entry *entry)
{
    OWNED(buf_done) struct buf title = BUF_EMPTY;
    record_title(entry, &title);
    escape_line(out, &title);
}

static void append_cell(struct buf *out, const struct record_entry *entry)
{
    const json_t *code = json_object_get(entry->event, "code");
    const json_t *result = entry->result;
    if (json_string_length(code) > 0) {
        buf_append_text(out, "<pre class=\"code\">");
        record_highlight(out, json_string_value(code), json_string_length(code));
        buf_append_text(out, "</pre>\n");
    }
    append_output(out, result);
    append_text(out, "out", "Out: ", result, "value");
    append_text(out, "out trace", "", result, "traceback");
    append_text(out, "out", "Hint: ", result, "hint");
    append_text(out, "out", "", result, "refusal");
    append_images(out, json_object_get(result, "images"));
    append_text(out, "status", "", result, "status");
}

/* Text of a result in which a diff may be: its lines by their first character. */
static void append_diff(struct buf *out, const char *text, size_t size)
{
    buf_append_text(out, "<pre class=\"out diff\">");
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t line = end ? (size_t)(end - text) + 1 : size;
        buf_appendf(out, "<span class=\"%s\">",
                    text[0] == '+'   ? "add"
                    : text[0] == '-' ? "del"
                    : text[0] == ' ' ? "same"
                                     : "at");
        record_escape_html(out, text, line);
        buf_append_text(out, "</span>");
        text += line;
        size -= line;
    }
    buf_append_text(out, "</pre>\n");
}

static void append_call(struct buf *out, const struct record_entry *entry)
{
    const json_t *arguments = json_object_get(entry->event, "arguments");
    bool is_change = strcmp(entry->kind, "change") == 0;
    size_t i = 0;
    json_t *block = NULL;
    append_text(out, "code", "", arguments, "content");
    append_text(out, "code", "", arguments, "old_text");
    append_text(out, "code", "", arguments, "new_text");
    json_array_foreach (json_object_get(entry->event, "content"), i, block) {
        const json_t *text = json_object_get(block, "text");
        if (is_change && json_string_length(text) > 0) {
            append_diff(out, json_string_value(text), json_string_length(text));
        } else {
            append_text(out, "out", "", block, "text");
        }
    }
    append_images(out, json_object_get(entry->event, "content"));
}

static void append_entry(struct buf *out, const struct record_entry *entry, size_t number)
{
    bool is_cell = strcmp(entry->kind, "cell") == 0;
    const char *fate = is_cell ? record_fate_text(entry->fate) : "";
    const char *session = record_text(entry->event, "session");
    buf_appendf(out, "<section id=\"e%zu\" class=\"%s\"><h2><span>", number, class_of(entry));
    append_name(out, entry);
    buf_append_text(out, "</span>");
    append_clock(out, entry->event);
    if (session[0] && strcmp(session, "default") != 0) {
        record_fill(out, entry->event, "<em>session {session}</em>", record_escape_html);
    }
    if (fate[0]) {
        buf_appendf(out, "<em>%s</em>", fate);
    }
    buf_append_text(out, "</h2>\n");
    if (is_cell) {
        append_cell(out, entry);
    } else {
        append_call(out, entry);
    }
    buf_append_text(out, "</section>\n");
}

/* The first line of a cell's code, which says most about it. */
static void append_outline(struct buf *out, const struct record_entry *entry, size_t number)
{
    const json_t *code = json_object_get(entry->event, "code");
    const char *text = json_string_length(code) > 0 ? json_string_value(code) : "";
    size_t size = strcspn(text, "\n");
    buf_appendf(out, "<li><a class=\"%s\" href=\"#e%zu\">", class_of(entry), number);
    append_name(out, entry);
    buf_append_text(out, "  ");
    size = size < OUTLINE_BYTES ? size : OUTLINE_BYTES;
    while (size > 0 && utf8_is_inner(text[size])) {
        size--; /* ends before a whole character */
    }
    record_escape_html(out, text, size);
    buf_append_text(out, "</a></li>\n");
}

static void append_settings(struct buf *out, const struct record_book *book)
{
    size_t i = 0;
    json_t *row = NULL;
    buf_append_text(out, "<details><summary>Changed settings</summary><table>\n");
    json_array_foreach (json_object_get(book->start, "settings"), i, row) {
        if (strcmp(record_text(row, "source"), "default") != 0) {
            record_fill(out, row, "<tr><td>{name}</td><td>{value}</td><td>{source}</td></tr>\n",
                        record_escape_html);
        }
    }
    buf_append_text(out, "</table></details>\n");
}

void record_export_html(const struct record_book *book, const char *session, struct buf *out,
                        struct buf *)
{
    buf_append_text(out, page_begin);
    append_style(out);
    buf_append_text(out, "<title>");
    record_escape_html(out, book->name, strlen(book->name));
    buf_append_text(out, "</title></head>\n<body><header><h1>");
    record_escape_html(out, book->name, strlen(book->name));
    record_fill(out, book->start,
                "</h1><p>Sandpiper {version}, isolation level {isolation}, CPython {python}. "
                "Everything below the headings was written by code or by a model.</p>",
                record_escape_html);
    append_settings(out, book);
    buf_append_text(out, "</header>\n<nav><details open><summary>Outline</summary><ol>\n");
    for (size_t i = 0; i < book->count; i++) {
        if (record_is_of(&book->entries[i], session)) {
            append_outline(out, &book->entries[i], i + 1);
        }
    }
    buf_append_text(out, "</ol></details></nav>\n<main>\n");
    for (size_t i = 0; i < book->count; i++) {
        if (record_is_of(&book->entries[i], session)) {
            append_entry(out, &book->entries[i], i + 1);
        }
    }
    buf_append_text(out, "</main></body></html>\n");
}
