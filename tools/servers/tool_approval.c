#include "tools/servers/tool_approval.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "rpc/text.h"

/* Blocks of scripts that are written from right to left (Unicode 15, Bidi_Class R and AL). */
static bool is_right_to_left(uint32_t code)
{
    return (code >= 0x590 && code <= 0x8FF) || (code >= 0xFB1D && code <= 0xFDFF) ||
           (code >= 0xFE70 && code <= 0xFEFF) || (code >= 0x10800 && code <= 0x10FFF) ||
           (code >= 0x1E800 && code <= 0x1EFFF);
}

/* Such letters reverse the order in which their neighbours are shown, and so what belongs to what.
 */
static bool has_right_to_left(const struct buf *text)
{
    const char *bytes = buf_bytes(text);
    size_t size = buf_size(text);
    for (size_t at = 0; at < size;) {
        int n = utf8_size(bytes + at, size - at);
        if (n > 0 && is_right_to_left(utf8_code(bytes + at, n))) {
            return true;
        }
        at += (size_t)(n > 0 ? n : -n);
    }
    return false;
}

static int append_ascii(struct buf *out, const json_t *value)
{
    defer_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII);
    return text ? buf_append_text(out, text) : -1;
}

/* Many blanks push what follows out of sight. No JSON string has the text that stands for them. */
static void append_shortened(struct buf *out, const char *text, size_t size)
{
    enum { BLANKS = 8 };
    for (size_t at = 0; at < size;) {
        size_t blanks = 0;
        while (at + blanks < size && text[at + blanks] == ' ') {
            blanks++;
        }
        size_t part = blanks ? blanks : 1;
        if (blanks > BLANKS) {
            (void)buf_appendf(out, "\\x20{%zu}", blanks);
        } else {
            (void)buf_append(out, text + at, part);
        }
        at += part;
    }
}

const char *tool_approval_write(struct buf *text, const char *label, const json_t *arguments)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    int r = rpc_text_show(&shown, arguments);
    if (r == 0 && has_right_to_left(&shown)) {
        buf_cut(&shown, 0);
        r = append_ascii(&shown, arguments);
    }
    if (r == 0 && buf_size(&shown) > TOOL_APPROVAL_BYTES) {
        return "It needs the user's approval, and the arguments are too long for the user to read: "
               "more than 1,000 bytes as JSON.";
    }
    (void)buf_appendf(text, "Python code in the sandbox wants to call %s with ", label);
    append_shortened(text, buf_bytes(&shown), buf_size(&shown));
    (void)buf_append_text(text, ". Allow this call?");
    (void)buf_append(text, "", 1);
    return r < 0 || buf_error(text) ? "The server is out of memory." : NULL;
}
