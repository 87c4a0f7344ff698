#include "record/fence.h"

#include "base/buf.h"
#include "base/own.h"
#include "record/escape.h"

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
