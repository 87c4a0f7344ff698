/* Source: MCP 2026-07-28 client/elicitation, "Requested Schema"; the same since 2025-11-25. Clients
 * refuse other requests as a whole, and in 2026-07-28 the request is the cell's result. */
#include "tools/servers/tool_form.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/text.h"

enum { FORM_BYTES = 64 << 10, TITLE_BYTES = 200, DESCRIPTION_BYTES = 1000 };

/* WORD: the response must repeat it as the user sees it. */
enum kind {
    TITLE,
    DESCRIPTION,
    WORD,
    TEXT,
    FORMAT,
    NUMBER,
    SIZE,
    BOOLEAN,
    WORDS,
    TITLES,
    CHOICE,
    CHOICES,
    ITEMS
};

struct member {
    const char *key;
    enum kind kind;
    bool required;
};

static const struct member choice[] = {{"const", WORD, true}, {"title", TITLE, true}, {}};
static const struct member plain_items[] = {{"enum", WORDS, true}, {"type", WORD, true}, {}};
static const struct member titled_items[] = {{"anyOf", CHOICES, true}, {}};
static const struct member property_members[] = {{"type", WORD},
                                                 {"title", TITLE},
                                                 {"description", DESCRIPTION},
                                                 {"minLength", SIZE},
                                                 {"maxLength", SIZE},
                                                 {"format", FORMAT},
                                                 {"enum", WORDS},
                                                 {"enumNames", TITLES},
                                                 {"oneOf", CHOICES},
                                                 {"minimum", NUMBER},
                                                 {"maximum", NUMBER},
                                                 {"minItems", SIZE},
                                                 {"maxItems", SIZE},
                                                 {}};

static json_t *take(enum kind kind, json_t *value);

/* New: the known members of an object. */
static json_t *take_members(json_t *object, const struct member *known)
{
    json_auto_t *taken = json_is_object(object) ? json_object() : NULL;
    for (; taken && known->key; known++) {
        json_t *member = json_object_get(object, known->key);
        json_auto_t *value =
            member && !json_is_null(member) ? take(known->kind, member) : json_null();
        if (!value || (json_is_null(value) && known->required)) {
            return NULL;
        }
        if (!json_is_null(value) && json_object_set(taken, known->key, value) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_list(json_t *list, enum kind kind)
{
    json_auto_t *taken = json_is_array(list) ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_array_append_new(taken, take(kind, json_array_get(list, i))) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_shown(const char *text, size_t size)
{
    char shown[DESCRIPTION_BYTES];
    return text ? json_string(word_line(text, shown, size)) : NULL;
}

static bool is_word(const char *text)
{
    char shown[TITLE_BYTES];
    return text && strcmp(text, word_line(text, shown, sizeof shown)) == 0;
}

/* New: a member of this kind; NULL: it is another; null: it is left out. */
static json_t *take(enum kind kind, json_t *value)
{
    static const char *const formats[] = {"email", "uri", "date", "date-time", NULL};
    const char *text = rpc_text_plain(value);
    bool fits = false;
    switch (kind) {
    case TITLE:
        return take_shown(text, TITLE_BYTES);
    case DESCRIPTION:
        return take_shown(text, DESCRIPTION_BYTES);
    case WORDS:
        return take_list(value, WORD);
    case TITLES:
        return take_list(value, TITLE);
    case CHOICES:
        return take_list(value, CHOICE);
    case CHOICE:
        return take_members(value, choice);
    case ITEMS:
        return take_members(value, json_object_get(value, "anyOf") ? titled_items : plain_items);
    case TEXT:
    case FORMAT:
        if (json_is_string(value) &&
            !(kind == TEXT ? is_word(text) : text && parse_is_among(text, formats))) {
            return json_null();
        }
        fits = text != NULL;
        break;
    case WORD:
        fits = is_word(text);
        break;
    case NUMBER:
        fits = json_is_number(value);
        break;
    case SIZE:
        fits = json_is_integer(value) && json_integer_value(value) >= 0;
        break;
    case BOOLEAN:
        fits = json_is_boolean(value);
        break;
    }
    return fits ? json_incref(value) : NULL;
}

/* New: the property; as pydantic has optional ones, of a type or null, without the null. */
static json_t *without_null(json_t *property)
{
    json_t *copy = json_copy(property);
    json_t *types = json_object_get(property, "anyOf");
    const char *last = rpc_text_plain(json_object_get(json_array_get(types, 1), "type"));
    if (json_array_size(types) == 2 && last && strcmp(last, "null") == 0) {
        (void)json_object_update_missing(copy, json_array_get(types, 0));
    }
    return copy;
}

static json_t *take_property(json_t *asked)
{
    json_auto_t *property = without_null(asked);
    static const struct {
        const char *name;
        enum kind kind; /* of its default */
    } types[] = {{"string", TEXT},
                 {"number", NUMBER},
                 {"integer", NUMBER},
                 {"boolean", BOOLEAN},
                 {"array", WORDS}};
    enum { COUNT = sizeof types / sizeof *types };
    const char *type = rpc_text_plain(json_object_get(property, "type"));
    const json_t *names = json_object_get(property, "enumNames");
    unsigned i = 0;
    while (type && i < COUNT && strcmp(type, types[i].name) != 0) {
        i++;
    }
    if (!type || i == COUNT ||
        (names && json_array_size(names) != json_array_size(json_object_get(property, "enum")))) {
        return NULL;
    }
    const struct member more[] = {
        {"items", ITEMS, types[i].kind == WORDS}, {"default", types[i].kind}, {}};
    json_auto_t *others = take_members(property, more);
    json_t *taken = others ? take_members(property, property_members) : NULL;
    (void)json_object_update(taken, others);
    return taken;
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
