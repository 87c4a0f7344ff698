#include "schema/keyword.h"

#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"
#include "tests/unit/unit.h"

enum { DESCRIPTION_MAX = 2048 }; /* clients cut longer ones */

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
    json_auto_t *schema = json_pack("{s:O}", "type", value);
    return keyword_type(schema) != KEYWORD_TYPE_ANY;
}

/* What ECMA-262 and POSIX extended expressions both accept with one meaning: no backslash, no
 * "(?". */
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

/* The first keyword in schema that schema/validate.c lacks, or whose value it cannot use; NULL when
 * all are supported. */
static const char *unsupported(const json_t *schema)
{
    json_t *object = (json_t *)(uintptr_t)schema; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (object, key, value) {
        if (!keyword_supported(key, value)) {
            return key;
        }
    }
    json_object_foreach (json_object_get(schema, "properties"), key, value) {
        const char *bad = json_is_object(value) ? unsupported(value) : key;
        if (bad) {
            return bad;
        }
    }
    const json_t *items = json_object_get(schema, "items");
    return items ? unsupported(items) : NULL;
}

static void every_file_is_a_tool_that_we_can_enforce(void **)
{
    size_t count = 0;
    for (; schema_catalog[count].name; count++) {
        const char *name = schema_name(count);
        assert_non_null(name);
        const json_t *tool = schema_tool(name);
        const json_t *input = schema_input(name);
        assert_non_null(tool);
        assert_string_equal(json_string_value(json_object_get(tool, "name")), name);
        assert_string_equal(json_string_value(json_object_get(input, "type")), "object");
        assert_true(json_is_false(json_object_get(input, "additionalProperties")));
        json_t *output = schema_output(name);
        assert_string_equal(json_string_value(json_object_get(output, "type")), "object");
        const char *bad = unsupported(input) ? unsupported(input) : unsupported(output);
        if (bad) {
            fail_msg("%s: keyword %s is not supported", name, bad);
        }
        json_decref(output);
        assert_in_range(json_string_length(json_object_get(tool, "description")), 100,
                        DESCRIPTION_MAX);
        const char *key = NULL;
        json_t *property = NULL;
        json_object_foreach (json_object_get(input, "properties"), key, property) {
            assert_true(json_is_string(json_object_get(property, "description")));
            assert_true(json_is_string(json_object_get(property, "type")));
        }
        size_t i = 0;
        const json_t *required = NULL;
        json_array_foreach (json_object_get(input, "required"), i, required) {
            assert_non_null(
                json_object_get(json_object_get(input, "properties"), json_string_value(required)));
        }
    }
    assert_in_range(count, 3, 16);
    assert_null(schema_name(count));
    assert_null(schema_tool("no_such"));
    assert_null(schema_tool("run"));
    assert_null(schema_output("no_such"));
}

static void unknown_keyword_is_named(void **)
{
    json_t *schema = json_loads(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\","
        "\"items\":{\"$ref\":\"#\"}}}}",
        0, NULL);
    assert_string_equal(unsupported(schema), "$ref");
    json_decref(schema);
    schema = json_loads("{\"pattern\":\"\\\\d\"}", 0, NULL);
    assert_string_equal(unsupported(schema), "pattern");
    json_decref(schema);
}

static void placeholders_are_filled_everywhere(void **)
{
    const struct schema_value values[] = {
        {"timeout_s", "77"}, {"max_timeout_s", "88"}, {"memory", "5 GiB"}, {"python", "3.x"}, {}};
    json_t *tool = schema_describe("run_python", values);
    char *text = json_dumps(tool, 0);
    assert_non_null(strstr(text, "77 s per call"));
    assert_non_null(strstr(text, "Default 77, at most 88"));
    assert_non_null(strstr(text, "5 GiB"));
    assert_null(strstr(text, "{timeout_s}"));
    assert_null(strstr(text, "{python}"));
    free(text);
    json_decref(tool);
    assert_non_null(
        strstr(json_string_value(json_object_get(schema_tool("run_python"), "description")),
               "{timeout_s}"));
    assert_null(schema_describe("no_such", values));
}

/* The refusal of a call that lacks a property quotes its first sentence, whole and as it is. */
static void first_sentences_of_required_properties_can_be_quoted(void **)
{
    for (size_t i = 0; schema_name(i); i++) {
        const json_t *input = schema_input(schema_name(i));
        json_t *none = json_object();
        struct schema_violation violation;
        if (!json_object_get(input, "required")) {
            json_decref(none);
            continue;
        }
        assert_int_equal(schema_validate(input, none, &violation, 1), 1);
        json_decref(none);
        const json_t *name = json_array_get(json_object_get(input, "required"), 0);
        const json_t *property =
            json_object_get(json_object_get(input, "properties"), json_string_value(name));
        char about[1024];
        (void)snprintf(about, sizeof about, "%s",
                       json_string_value(json_object_get(property, "description")));
        char *stop = strstr(about, ". ");
        if (stop) {
            *stop = '\0';
        }
        assert_non_null(strstr(violation.text, about));
        assert_null(strchr(violation.text, '{'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_a_tool_that_we_can_enforce),
        cmocka_unit_test(unknown_keyword_is_named),
        cmocka_unit_test(placeholders_are_filled_everywhere),
        cmocka_unit_test(first_sentences_of_required_properties_can_be_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
