#include "schema/keyword.h"

#include <math.h>
#include <regex.h>
#include <stdint.h>
#include <string.h>

#include "schema/schema.h"

static const struct {
    const char *name;
    const char *article;
} types[KEYWORD_TYPE_COUNT] = {
    [KEYWORD_TYPE_ANY] = {"", "any value"},
    [KEYWORD_TYPE_ARRAY] = {"array", "an array"},
    [KEYWORD_TYPE_BOOLEAN] = {"boolean", "true or false"},
    [KEYWORD_TYPE_INTEGER] = {"integer", "an integer"},
    [KEYWORD_TYPE_NUMBER] = {"number", "a number"},
    [KEYWORD_TYPE_OBJECT] = {"object", "an object"},
    [KEYWORD_TYPE_STRING] = {"string", "a string"},
};

enum keyword_type keyword_type(const json_t *schema)
{
    const char *name = json_string_value(json_object_get(schema, "type"));
    for (unsigned i = KEYWORD_TYPE_ANY + 1; name && i < KEYWORD_TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return (enum keyword_type)i;
        }
    }
    return KEYWORD_TYPE_ANY;
}

const char *keyword_type_article(enum keyword_type type)
{
    return types[type].article;
}

bool keyword_type_matches(enum keyword_type type, const json_t *value)
{
    switch (type) {
    case KEYWORD_TYPE_ARRAY:
        return json_is_array(value);
    case KEYWORD_TYPE_BOOLEAN:
        return json_is_boolean(value);
    case KEYWORD_TYPE_INTEGER: /* 3.0 is an integer too, JSON Schema 2020-12 section 4.2.3 */
        return json_is_integer(value) ||
               (json_is_real(value) && trunc(json_real_value(value)) == json_real_value(value));
    case KEYWORD_TYPE_NUMBER:
        return json_is_number(value);
    case KEYWORD_TYPE_OBJECT:
        return json_is_object(value);
    case KEYWORD_TYPE_STRING:
        return json_is_string(value);
    case KEYWORD_TYPE_ANY:
    case KEYWORD_TYPE_COUNT:
        break;
    }
    return true;
}

bool keyword_requires(const json_t *schema, const char *key)
{
    size_t i = 0;
    const json_t *name = NULL;
    json_array_foreach (json_object_get(schema, "required"), i, name) {
        if (strcmp(json_string_value(name), key) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_number(const json_t *value)
{
    return json_is_number(value);
}

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_array(const json_t *value)
{
    return json_is_array(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_anything(const json_t *value)
{
    return value != NULL;
}

static bool is_texts(const json_t *value)
{
    size_t i = 0;
    const json_t *item = NULL;
    json_array_foreach (value, i, item) {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return json_is_array(value);
}

static bool is_type(const json_t *value)
{
    for (unsigned i = KEYWORD_TYPE_ANY + 1; json_is_string(value) && i < KEYWORD_TYPE_COUNT; i++) {
        if (strcmp(types[i].name, json_string_value(value)) == 0) {
            return true;
        }
    }
    return false;
}

/* What ECMA-262 and POSIX extended expressions mean alike: no backslash, no "(?". */
static bool is_pattern(const json_t *value)
{
    const char *text = json_string_value(value);
    regex_t regex;
    if (!text || strchr(text, '\\') || strstr(text, "(?") ||
        regcomp(&regex, text, REG_EXTENDED | REG_NOSUB) != 0) {
        return false;
    }
    regfree(&regex);
    return true;
}

static const struct {
    const char *name;
    bool (*usable)(const json_t *value);
} keywords[] = {
    {"additionalProperties", is_boolean},
    {"default", is_anything},
    {"description", is_text},
    {"enum", is_texts},
    {"examples", is_array},
    {"items", is_object},
    {"maxItems", is_count},
    {"maxLength", is_count},
    {"maximum", is_number},
    {"minItems", is_count},
    {"minLength", is_count},
    {"minimum", is_number},
    {"pattern", is_pattern},
    {"properties", is_object},
    {"required", is_texts},
    {"title", is_text},
    {"type", is_type},
};

static bool keyword_supported(const char *name, const json_t *value)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            return keywords[i].usable(value);
        }
    }
    return false;
}

const char *schema_unsupported(const json_t *schema)
{
    json_t *object = (json_t *)(uintptr_t)schema; /* jansson's iterators want no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (object, key, value) {
        if (!keyword_supported(key, value)) {
            return key;
        }
    }
    json_object_foreach (json_object_get(schema, "properties"), key, value) {
        const char *bad = json_is_object(value) ? schema_unsupported(value) : key;
        if (bad) {
            return bad;
        }
    }
    const json_t *items = json_object_get(schema, "items");
    return items ? schema_unsupported(items) : NULL;
}
