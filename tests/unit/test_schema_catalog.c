#include "schema/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"
#include "tests/unit/unit.h"

enum { DESCRIPTION_MAX = 2048 }; /* hosts cut longer ones */

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
        const char *bad =
            schema_unsupported(input) ? schema_unsupported(input) : schema_unsupported(output);
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
    assert_string_equal(schema_unsupported(schema), "$ref");
    json_decref(schema);
    schema = json_loads("{\"pattern\":\"\\\\d\"}", 0, NULL);
    assert_string_equal(schema_unsupported(schema), "pattern");
    json_decref(schema);
}

static void placeholders_are_filled_everywhere(void **)
{
    const struct schema_value values[] = {
        {"timeout_s", "77"}, {"max_timeout_s", "88"}, {"memory", "5 GiB"}, {"python", "3.x"}, {}};
    json_t *tool = schema_describe("run_python", values);
    char *text = json_dumps(tool, 0);
    assert_non_null(strstr(text, "77 s a call"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_a_tool_that_we_can_enforce),
        cmocka_unit_test(unknown_keyword_is_named),
        cmocka_unit_test(placeholders_are_filled_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
