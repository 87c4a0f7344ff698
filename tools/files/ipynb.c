#include "tools/files/decode.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "rpc/text.h"

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
