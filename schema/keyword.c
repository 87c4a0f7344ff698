#include "schema/keyword.h"

#include <stdint.h>
#include <string.h>

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

/* From 2^53 on each double is a whole number. */
static bool is_whole(double value)
{
    return value <= -0x1p53 || value >= 0x1p53 || (double)(int64_t)value == value;
}

bool keyword_type_matches(enum keyword_type type, const json_t *value)
{
    switch (type) {
    case KEYWORD_TYPE_ARRAY:
        return json_is_array(value);
    case KEYWORD_TYPE_BOOLEAN:
        return json_is_boolean(value);
    case KEYWORD_TYPE_INTEGER: /* 3.0 is an integer too, JSON Schema 2020-12 section 4.2.3 */
        return json_is_integer(value) || (json_is_real(value) && is_whole(json_real_value(value)));
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
