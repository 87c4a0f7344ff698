#include "record/escape.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "base/word.h"

static const char *entity_of(char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : NULL;
}

/* kept: control characters that stay. */
static void escape(struct buf *out, const char *text, size_t size, const char *kept, bool html)
{
    size_t from = 0; /* not appended yet */
    for (size_t at = 0; at < size;) {
        char c = text[at];
        int length = (unsigned char)c < 0x80 ? 1 : utf8_size(text + at, size - at);
        const char *entity = html ? entity_of(c) : NULL;
        bool seen = length == 1 ? (c >= ' ' && c < 0x7F) || (c && strchr(kept, c))
                                : length > 0 && !word_is_unseen(utf8_code(text + at, length));
        size_t piece = length > 0 ? (size_t)length : 1;
        if (!seen || entity) {
            buf_append(out, text + from, at - from);
            from = at + piece;
        }
        if (entity) {
            buf_append_text(out, entity);
        } else if (!seen) {
            (void)word_append_visible(out, text + at, piece);
        }
        at += piece;
    }
    buf_append(out, text + from, size - from);
}

void record_escape(struct buf *out, const char *text, size_t size)
{
    escape(out, text, size, "\n\t", /* html= */ false);
}

void record_escape_line(struct buf *out, const char *text, size_t size)
{
    escape(out, text, size, "", /* html= */ false);
}

void record_escape_html(struct buf *out, const char *text, size_t size)
{
    escape(out, text, size, "\n\t", /* html= */ true);
}

void record_append_lines(struct buf *out, const char *prefix, const char *text, size_t size)
{
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t line = end ? (size_t)(end - text) : size;
        buf_append_text(out, prefix);
        buf_append(out, text, line);
        buf_append_text(out, "\n");
        size -= line + (end != NULL);
        text += line + (end != NULL);
    }
}

static void append_fence(struct buf *out, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        buf_append_text(out, "`");
    }
}

void record_fence(struct buf *out, const char *language, const char *text, size_t size)
{
    size_t longest = 2;
    size_t run = 0;
    for (size_t at = 0; at < size; at++) {
        run = text[at] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    if (size == 0) {
        return;
    }
    append_fence(out, longest + 1);
    buf_appendf(out, "%s\n", language);
    record_escape(out, text, size);
    buf_append_text(out, text[size - 1] == '\n' ? "" : "\n");
    append_fence(out, longest + 1);
    buf_append_text(out, "\n\n");
}
