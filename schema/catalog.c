#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "schema/keyword.h"
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

/* The schemas of others: what the validator knows of them, in a form on which it can rely. */

enum { DEPTH = 16, PATTERN_BYTES = 128 };

static json_t *foreign(const json_t *schema, unsigned depth);

/* Without groups and counts a match takes no more than the product of both lengths, as it is tried
 * from the beginning only, and JavaScript's patterns mean the same as those of POSIX. */
static bool is_plain_pattern(const json_t *pattern)
{
    const char *text = json_string_value(pattern);
    return text && text[0] == '^' && strlen(text) == json_string_length(pattern) &&
           strlen(text) <= PATTERN_BYTES && !strpbrk(text, "\\(){}|?") && !strstr(text, "[:") &&
           !strstr(text, "[.");
}

static json_t *properties_of(const json_t *properties, unsigned depth)
{
    json_t *object = (json_t *)(uintptr_t)properties; /* jansson's iterators take no const */
    json_t *known = json_object();
    const char *key = NULL;
    json_t *property = NULL;
    json_object_foreach (object, key, property) {
        (void)json_object_set_new(known, key, foreign(property, depth + 1));
    }
    return known;
}

json_t *schema_strings(const json_t *array)
{
    json_t *known = json_array();
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (json_is_string(json_array_get(array, i))) {
            (void)json_array_append(known, json_array_get(array, i));
        }
    }
    return known;
}

static void copy_if(json_t *known, const json_t *schema, const char *key, bool usable)
{
    if (usable) {
        (void)json_object_set(known, key, json_object_get(schema, key));
    }
}

static json_t *foreign(const json_t *schema, unsigned depth)
{
    static const char *const numbers[] = {"minimum", "maximum"};
    static const char *const sizes[] = {"minLength", "maxLength", "minItems", "maxItems"};
    json_t *known = json_object();
    if (!json_is_object(schema) || depth > DEPTH) {
        return known;
    }
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *items = json_object_get(schema, "items");
    const json_t *enumerated = json_object_get(schema, "enum");
    copy_if(known, schema, "type", json_is_string(json_object_get(schema, "type")));
    copy_if(known, schema, "description", json_is_string(json_object_get(schema, "description")));
    copy_if(known, schema, "enum", json_is_array(enumerated) && json_array_size(enumerated) > 0);
    if (is_plain_pattern(json_object_get(schema, "pattern"))) {
        (void)json_object_set(known, KEYWORD_FOREIGN_PATTERN, json_object_get(schema, "pattern"));
    }
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        copy_if(known, schema, numbers[i], json_is_number(json_object_get(schema, numbers[i])));
    }
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const json_t *size = json_object_get(schema, sizes[i]);
        copy_if(known, schema, sizes[i], json_is_integer(size) && json_integer_value(size) >= 0);
    }
    if (json_is_object(items)) {
        (void)json_object_set_new(known, "items", foreign(items, depth + 1));
    }
    if (json_is_object(properties)) {
        (void)json_object_set_new(known, "properties", properties_of(properties, depth));
    }
    (void)json_object_set_new(known, "required",
                              schema_strings(json_object_get(schema, "required")));
    copy_if(known, schema, "additionalProperties",
            json_is_object(properties) && !json_object_get(schema, "patternProperties") &&
                json_is_false(json_object_get(schema, "additionalProperties")));
    return known;
}

json_t *schema_foreign(const json_t *schema)
{
    json_t *known = foreign(schema, 0);
    (void)json_object_set_new(known, KEYWORD_FOREIGN, json_true());
    return known;
}
