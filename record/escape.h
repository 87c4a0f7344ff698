#pragma once
#include <stddef.h>

struct buf;

/* Appends text of a session with every invisible character made visible, as base/word.h writes it,
 * but line feeds and tabs. */
void record_escape(struct buf *out, const char *text, size_t size);

/* The same on one line: also line feeds and tabs are made visible. */
void record_escape_line(struct buf *out, const char *text, size_t size);

/* The same as record_escape(), for HTML: markup is text, also in an attribute between '"'. */
void record_escape_html(struct buf *out, const char *text, size_t size);

/* Appends text with prefix before each of its lines, and a line feed at its end. */
void record_append_lines(struct buf *out, const char *prefix, const char *text, size_t size);

/* Appends text as a block of Markdown, between fences that are longer than any in the text; nothing
 * if it is empty. */
void record_fence(struct buf *out, const char *language, const char *text, size_t size);

/* Appends Python code as HTML: escaped, with spans of the classes k, c, s and n (view/view.css)
 * around keywords, comments, strings and numbers. */
void record_highlight(struct buf *out, const char *code, size_t size);
