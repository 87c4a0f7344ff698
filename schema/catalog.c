#include "schema/catalog.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "schema/schema.h"

enum { CATALOG_MAX = 16 };

/* Each parsed on first use and kept: the process has one set of tools. */
static json_t *parsed[CATALOG_MAX];

static const json_t *catalog_tool(size_t index)
{
    assert(index < CATALOG_MAX);
    if (!parsed[index]) {
        const struct embedded *file = &schema_catalog[index];
        parsed[index] =
            json_loadb((const char *)file->data, file->size, JSON_REJECT_DUPLICATES, NULL);
    }
    return parsed[index];
}

const char *schema_name(size_t index)
{
    for (size_t i = 0; i <= index; i++) {
        if (!schema_catalog[i].name) {
            return NULL;
        }
    }
    return json_string_value(json_object_get(catalog_tool(index), "name"));
}

/* Whether file is the tool's: its name and suffix. */
static bool is_of(const char *file, const char *name, const char *suffix)
{
    size_t size = strlen(name);
    return strncmp(file, name, size) == 0 && strcmp(file + size, suffix) == 0;
}

const json_t *schema_tool(const char *name)
{
    for (size_t i = 0; schema_catalog[i].name; i++) {
        if (is_of(schema_catalog[i].name, name, ".input.json")) {
            return catalog_tool(i);
        }
    }
    return NULL;
}

json_t *schema_output(const char *name)
{
    for (const struct embedded *file = schema_outputs; file->name; file++) {
        if (is_of(file->name, name, ".output.json")) {
            return json_loadb((const char *)file->data, file->size, JSON_REJECT_DUPLICATES, NULL);
        }
    }
    return NULL;
}

const json_t *schema_input(const char *name)
{
    return json_object_get(schema_tool(name), "inputSchema");
}

/* Appends text with its placeholders filled. Returns whether there was one. */
static bool fill_text(struct buf *out, const char *text, const struct schema_value *values)
{
    bool filled = false;
    while (*text) {
        size_t plain = strcspn(text, "{");
        buf_append(out, text, plain);
        text += plain;
        size_t size = *text ? strcspn(text + 1, "}") : 0;
        const struct schema_value *value = values;
        while (value->key &&
               (strlen(value->key) != size || strncmp(value->key, text + 1, size) != 0)) {
            value++;
        }
        if (*text && value->key && text[1 + size] == '}') {
            buf_append_text(out, value->text);
            text += size + 2;
            filled = true;
        } else if (*text) {
            buf_append(out, text++, 1);
        }
    }
    return filled;
}

/* Fills the description of one tool or property. */
static int fill_description(json_t *object, const struct schema_value *values)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    const char *text = json_string_value(json_object_get(object, "description"));
    if (!text || !fill_text(&out, text, values)) {
        return 0;
    }
    return buf_error(&out) ? -1
                           : json_object_set_new(object, "description",
                                                 json_stringn(buf_bytes(&out), buf_size(&out)));
}

json_t *schema_describe(const char *name, const struct schema_value *values)
{
    json_auto_t *tool = json_deep_copy(schema_tool(name));
    if (!tool || fill_description(tool, values) < 0) {
        return NULL;
    }
    json_t *properties = json_object_get(json_object_get(tool, "inputSchema"), "properties");
    const char *key = NULL;
    json_t *property = NULL;
    json_object_foreach (properties, key, property) {
        if (fill_description(property, values) < 0) {
            return NULL;
        }
    }
    return take_ptr(tool);
}
