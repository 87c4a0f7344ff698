#include "tools/files/decode.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "rpc/text.h"

size_t lines_ends(const char *bytes, size_t size)
{
    size_t count = 0;
    const char *end = bytes + size;
    while (size > 0 && (bytes = memchr(bytes, '\n', size))) {
        count++;
        bytes++;
        size = (size_t)(end - bytes);
    }
    return count;
}

size_t lines_count(const char *bytes, size_t size)
{
    return lines_ends(bytes, size) + (size > 0 && bytes[size - 1] != '\n');
}

size_t lines_forward(const char *bytes, size_t size, size_t *skip)
{
    size_t at = 0;
    while (*skip > 0 && at < size) {
        const char *newline = memchr(bytes + at, '\n', size - at);
        if (!newline) {
            return size;
        }
        at = (size_t)(newline - bytes) + 1;
        --*skip;
    }
    return at;
}

size_t lines_backward(const char *bytes, size_t size, size_t *skip)
{
    while (*skip > 0 && size > 0) {
        const char *newline = memrchr(bytes, '\n', size);
        if (!newline) {
            return 0;
        }
        size = (size_t)(newline - bytes);
        if (--*skip == 0) {
            return size + 1;
        }
    }
    return 0;
}

size_t lines_cut(const char *bytes, size_t size, size_t limit)
{
    if (size <= limit) {
        return size;
    }
    const char *newline = memrchr(bytes + limit / 2, '\n', limit - limit / 2);
    if (newline) {
        return (size_t)(newline - bytes) + 1;
    }
    for (size_t back = 0; back < 4 && back < limit; back++) {
        if (!utf8_is_inner(bytes[limit - back])) {
            return limit - back;
        }
    }
    return limit;
}

enum { REPLACEMENT = 0xfffd, UTF8_MOST = 3 /* bytes for one 16-bit unit */ };

static char *put(char *at, uint32_t code)
{
    if (code < 0x80) {
        *at++ = (char)code;
        return at;
    }
    if (code < 0x800) {
        *at++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *at++ = (char)(0xe0 | code >> 12);
        } else {
            *at++ = (char)(0xf0 | code >> 18);
            *at++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *at++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *at++ = (char)(0x80 | (code & 0x3f));
    return at;
}

int utf16_decode(const char *bytes, size_t size, struct buf *out)
{
    const uint8_t *p = (const uint8_t *)bytes;
    bool big = size >= 2 && p[0] == 0xfe;
    char *space = NULL;
    int r = buf_reserve(out, (size / 2 + 1) * UTF8_MOST, &space);
    if (r < 0) {
        return r;
    }
    char *at = space;
    uint32_t high = 0; /* the first half of a surrogate pair, until its second comes, or 0 */
    for (size_t i = 2; i + 1 < size; i += 2) {
        uint32_t unit = big ? (uint32_t)p[i] << 8 | p[i + 1] : (uint32_t)p[i + 1] << 8 | p[i];
        bool is_low = unit >= 0xdc00 && unit < 0xe000;
        if (high && is_low) {
            at = put(at, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
            high = 0;
            continue;
        }
        if (high) {
            at = put(at, REPLACEMENT);
        }
        high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
        if (!high) {
            at = put(at, is_low ? REPLACEMENT : unit);
        }
    }
    if (high || size % 2) {
        at = put(at, REPLACEMENT);
    }
    buf_commit(out, (size_t)(at - space));
    return 0;
}

bool ipynb_is(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".ipynb") == 0;
}

/* Appends a text, which is one string or a list of its lines, and an end of line if it has none. */
static void append_text(struct buf *out, const json_t *text)
{
    size_t begin = buf_size(out);
    buf_append(out, json_string_value(text), json_string_length(text));
    size_t i = 0;
    const json_t *line = NULL;
    json_array_foreach (text, i, line) {
        buf_append(out, json_string_value(line), json_string_length(line));
    }
    size_t size = buf_size(out);
    if (size > begin && buf_bytes(out)[size - 1] != '\n') {
        buf_append(out, "\n", 1);
    }
}

/* Appends the text of an output's data, or its types. */
static void append_data(struct buf *out, const json_t *data)
{
    const json_t *plain = json_object_get(data, "text/plain");
    const char *type = NULL;
    json_t *value = NULL;
    append_text(out, plain);
    json_object_foreach ((json_t *)(uintptr_t)data, type, value) {
        if (!plain || strncmp(type, "image/", 6) == 0) {
            buf_append_text(out, "[");
            buf_append_text(out, type);
            buf_append_text(out, "]\n");
        }
    }
}

static void append_output(struct buf *out, const json_t *output)
{
    const char *error = json_string_value(json_object_get(output, "ename"));
    const char *message = json_string_value(json_object_get(output, "evalue"));
    append_text(out, json_object_get(output, "text"));
    append_data(out, json_object_get(output, "data"));
    if (error) {
        buf_append_text(out, error);
        buf_append_text(out, ": ");
        buf_append_text(out, message ? message : "");
        buf_append_text(out, "\n");
    }
}

static void append_cell(struct buf *out, size_t number, const json_t *cell)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    const json_t *outputs = json_object_get(cell, "outputs");
    size_t i = 0;
    const json_t *output = NULL;
    buf_appendf(out, "\n--- cell %zu, ", number);
    buf_append_text(out, type ? type : "?");
    buf_append_text(out, " ---\n");
    append_text(out, json_object_get(cell, "source"));
    if (json_array_size(outputs) > 0) {
        buf_appendf(out, "--- output of cell %zu ---\n", number);
    }
    json_array_foreach (outputs, i, output) {
        append_output(out, output);
    }
}

int ipynb_decode(const char *bytes, size_t size, struct buf *out)
{
    json_auto_t *book = rpc_text_value(bytes, size, LIMIT_JSON_DEPTH);
    const json_t *cells = json_object_get(book, "cells");
    if (!json_is_array(cells)) {
        return -EINVAL;
    }
    size_t count = json_array_size(cells);
    size_t i = 0;
    const json_t *cell = NULL;
    buf_appendf(out, "[notebook of %zu cell%s as text; encoding=\"text\" shows its JSON]\n", count,
                count == 1 ? "" : "s");
    json_array_foreach (cells, i, cell) {
        append_cell(out, i + 1, cell);
    }
    return buf_error(out);
}
