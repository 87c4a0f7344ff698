/* Source: MCP 2026-07-28 client/elicitation, "Requested Schema"; the same since 2025-11-25. Clients
 * refuse other requests as a whole, and in 2026-07-28 the request is the cell's result. */
#include "tools/servers/tool_form.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/own.h"
#include "base/word.h"
#include "rpc/text.h"

enum { FORM_BYTES = 64 << 10, TITLE_BYTES = 200, DESCRIPTION_BYTES = 1000 };

/* Each returns a new value, NULL: it is of another kind, or null: it is left out. */
struct member {
    const char *key;
    json_t *(*take)(json_t *value);
    bool required;
};

/* New: the known members of an object. */
static json_t *take_members(json_t *object, const struct member *known)
{
    json_auto_t *taken = json_is_object(object) ? json_object() : NULL;
    for (; taken && known->key; known++) {
        json_t *member = json_object_get(object, known->key);
        json_auto_t *value = member && !json_is_null(member) ? known->take(member) : json_null();
        if (!value || (json_is_null(value) && known->required)) {
            return NULL;
        }
        if (!json_is_null(value) && json_object_set(taken, known->key, value) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_list(json_t *list, json_t *(*take)(json_t *value))
{
    json_auto_t *taken = json_is_array(list) ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_array_append_new(taken, take(json_array_get(list, i))) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_title(json_t *value)
{
    char shown[TITLE_BYTES];
    const char *text = rpc_text_plain(value);
    return text ? json_string(word_line(text, shown, sizeof shown)) : NULL;
}

static json_t *take_description(json_t *value)
{
    char shown[DESCRIPTION_BYTES];
    const char *text = rpc_text_plain(value);
    return text ? json_string(word_line(text, shown, sizeof shown)) : NULL;
}

/* Whether the response can repeat what the user sees. */
static bool is_word(const char *text)
{
    char shown[TITLE_BYTES];
    return text && strcmp(text, word_line(text, shown, sizeof shown)) == 0;
}

static json_t *take_word(json_t *value)
{
    return is_word(rpc_text_plain(value)) ? json_incref(value) : NULL;
}

static json_t *take_text(json_t *value)
{
    return !json_is_string(value)           ? NULL
           : is_word(rpc_text_plain(value)) ? json_incref(value)
                                            : json_null();
}

static json_t *take_format(json_t *value)
{
    static const char *const formats[] = {"email", "uri", "date", "date-time"};
    const char *format = rpc_text_plain(value);
    for (unsigned i = 0; format && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(format, formats[i]) == 0) {
            return json_incref(value);
        }
    }
    return json_is_string(value) ? json_null() : NULL;
}

static json_t *take_number(json_t *value)
{
    return json_is_number(value) ? json_incref(value) : NULL;
}

static json_t *take_size(json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_incref(value) : NULL;
}

static json_t *take_boolean(json_t *value)
{
    return json_is_boolean(value) ? json_incref(value) : NULL;
}

static json_t *take_words(json_t *value)
{
    return take_list(value, take_word);
}

static json_t *take_titles(json_t *value)
{
    return take_list(value, take_title);
}

static json_t *take_choice(json_t *value)
{
    static const struct member choice[] = {
        {"const", take_word, true}, {"title", take_title, true}, {}};
    return take_members(value, choice);
}

static json_t *take_choices(json_t *value)
{
    return take_list(value, take_choice);
}

static json_t *take_items(json_t *value)
{
    static const struct member titled[] = {{"anyOf", take_choices, true}, {}};
    static const struct member plain[] = {{"enum", take_words, true}, {}};
    bool is_titled = json_object_get(value, "anyOf");
    json_t *items = take_members(value, is_titled ? titled : plain);
    (void)json_object_set_new(is_titled ? NULL : items, "type", json_string("string"));
    return items;
}

#define COMMON                                                                                     \
    {"title", take_title},                                                                         \
    {                                                                                              \
        "description", take_description                                                            \
    }

static json_t *take_property(json_t *property)
{
    static const struct member string[] = {{"type", take_word},        COMMON,
                                           {"minLength", take_size},   {"maxLength", take_size},
                                           {"format", take_format},    {"enum", take_words},
                                           {"enumNames", take_titles}, {"oneOf", take_choices},
                                           {"default", take_text},     {}};
    static const struct member number[] = {{"type", take_word},      COMMON,
                                           {"minimum", take_number}, {"maximum", take_number},
                                           {"default", take_number}, {}};
    static const struct member boolean[] = {
        {"type", take_word}, COMMON, {"default", take_boolean}, {}};
    static const struct member array[] = {
        {"items", take_items, true}, {"type", take_word},     COMMON, {"minItems", take_size},
        {"maxItems", take_size},     {"default", take_words}, {}};
    static const struct {
        const char *name;
        const struct member *members;
    } types[] = {{"string", string},
                 {"number", number},
                 {"integer", number},
                 {"boolean", boolean},
                 {"array", array}};
    const char *type = rpc_text_plain(json_object_get(property, "type"));
    const json_t *names = json_object_get(property, "enumNames");
    if (names && json_array_size(names) != json_array_size(json_object_get(property, "enum"))) {
        return NULL;
    }
    for (unsigned i = 0; type && i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].name) == 0) {
            return take_members(property, types[i].members);
        }
    }
    return NULL;
}

json_t *tool_form_new(json_t *schema)
{
    json_t *asked = json_object_get(schema, "properties");
    const char *type = rpc_text_plain(json_object_get(schema, "type"));
    const char *key = NULL;
    json_t *property = NULL;
    json_auto_t *properties = json_object();
    json_auto_t *required = json_array();
    if (!type || strcmp(type, "object") != 0 || !json_is_object(asked)) {
        return NULL;
    }
    json_object_foreach (asked, key, property) {
        if (!is_word(key) || json_object_set_new(properties, key, take_property(property)) < 0) {
            return NULL;
        }
    }
    json_t *names = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = rpc_text_plain(json_array_get(names, i));
        if (name && json_object_get(asked, name)) {
            (void)json_array_append(required, json_array_get(names, i));
        }
    }
    json_t *form = json_pack("{s:s, s:O, s:O*}", "type", "object", "properties", properties,
                             "required", json_array_size(required) > 0 ? required : NULL);
    if (json_dumpb(form, NULL, 0, 0) > FORM_BYTES) {
        json_decref(form);
        return NULL;
    }
    return form;
}
