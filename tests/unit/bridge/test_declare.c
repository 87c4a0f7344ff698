#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "bridge/format.h"
#include "tests/unit/unit.h"

static const char tools_text[] =
    "[{\"name\":\"paint\",\"title\":\"Paint\",\"description\":\"Paints.\",\"inputSchema\":"
    "{\"type\":\"object\",\"properties\":{"
    "\"what\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Of what.\"},"
    "\"tone\":{\"type\":\"string\",\"enum\":[\"warm\",\"cold\"],\"pattern\":\"^[a-z]+$\"},"
    "\"spots\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
    "{\"x\":{\"type\":\"number\",\"minimum\":0.5}},\"additionalProperties\":false}}},"
    "\"required\":[\"what\"],\"additionalProperties\":false},\"_meta\":{\"k\":1}}]";

static void expect(const char *format, bool strict, const char *wanted)
{
    json_t *tools = json_loads(tools_text, 0, NULL);
    json_t *declared = bridge_declare(bridge_format_find(format), strict, tools);
    char *text = json_dumps(declared, JSON_COMPACT);
    assert_string_equal(text, wanted);
    free(text);
    json_decref(declared);
    char *after = json_dumps(tools, JSON_COMPACT);
    assert_string_equal(after, tools_text); /* the input is unchanged */
    free(after);
    json_decref(tools);
}

#define WHAT "\"what\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Of what.\"}"
#define PLAIN                                                                                      \
    "{\"type\":\"object\",\"properties\":{" WHAT                                                   \
    ",\"tone\":{\"type\":\"string\",\"enum\":[\"warm\",\"cold\"],\"pattern\":\"^[a-z]+$\"},"       \
    "\"spots\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"                 \
    "{\"x\":{\"type\":\"number\",\"minimum\":0.5}},\"additionalProperties\":false}}},"             \
    "\"required\":[\"what\"],\"additionalProperties\":false}"
#define OPENAI_STRICT                                                                              \
    "{\"type\":\"object\",\"properties\":{"                                                        \
    "\"what\":{\"type\":\"string\",\"description\":\"Of what.\"},"                                 \
    "\"tone\":{\"type\":[\"string\",\"null\"],\"enum\":[\"warm\",\"cold\",null],"                  \
    "\"pattern\":\"^[a-z]+$\"},"                                                                   \
    "\"spots\":{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\",\"properties\":"      \
    "{\"x\":{\"type\":[\"number\",\"null\"],\"minimum\":0.5}},\"additionalProperties\":false,"     \
    "\"required\":[\"x\"]}}},"                                                                     \
    "\"required\":[\"what\",\"tone\",\"spots\"],\"additionalProperties\":false}"

static void plain_forms_have_the_schema_as_it_is(void **)
{
    expect("mcp", false, tools_text);
    expect("openai-chat", false,
           "[{\"type\":\"function\",\"function\":{\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parameters\":" PLAIN ",\"strict\":false}}]");
    expect("openai-responses", false,
           "[{\"type\":\"function\",\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parameters\":" PLAIN ",\"strict\":false}]");
    expect("anthropic", false,
           "[{\"name\":\"paint\",\"description\":\"Paints.\",\"input_schema\":" PLAIN "}]");
}

static void strict_forms_of_openai_require_all_and_allow_null(void **)
{
    expect("openai-chat", true,
           "[{\"type\":\"function\",\"function\":{\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parameters\":" OPENAI_STRICT ",\"strict\":true}}]");
    expect("openai-responses", true,
           "[{\"type\":\"function\",\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parameters\":" OPENAI_STRICT ",\"strict\":true}]");
    expect("mcp", true,
           "[{\"name\":\"paint\",\"title\":\"Paint\",\"description\":\"Paints.\","
           "\"inputSchema\":" OPENAI_STRICT ",\"_meta\":{\"k\":1}}]");
}

static void strict_form_of_anthropic_leaves_out_bounds_and_keeps_optional_ones(void **)
{
    expect("anthropic", true,
           "[{\"name\":\"paint\",\"description\":\"Paints.\",\"input_schema\":"
           "{\"type\":\"object\",\"properties\":{"
           "\"what\":{\"type\":\"string\",\"description\":\"Of what.\"},"
           "\"tone\":{\"type\":\"string\",\"enum\":[\"warm\",\"cold\"]},"
           "\"spots\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
           "{\"x\":{\"type\":\"number\"}},\"additionalProperties\":false}}},"
           "\"required\":[\"what\"],\"additionalProperties\":false},\"strict\":true}]");
}

static void forms_of_gemini(void **)
{
    expect("gemini", false,
           "{\"functionDeclarations\":[{\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parametersJsonSchema\":{\"type\":\"object\",\"properties\":{"
           "\"what\":{\"type\":\"string\",\"description\":\"Of what.\"},"
           "\"tone\":{\"type\":\"string\",\"enum\":[\"warm\",\"cold\"]},"
           "\"spots\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":"
           "{\"x\":{\"type\":\"number\",\"minimum\":0.5}},\"additionalProperties\":false}}},"
           "\"required\":[\"what\"],\"additionalProperties\":false}}]}");
    expect("gemini", true,
           "{\"functionDeclarations\":[{\"name\":\"paint\",\"description\":\"Paints.\","
           "\"parameters\":{\"type\":\"OBJECT\",\"properties\":{"
           "\"what\":{\"type\":\"STRING\",\"description\":\"Of what.\"},"
           "\"tone\":{\"type\":\"STRING\",\"enum\":[\"warm\",\"cold\"],\"pattern\":\"^[a-z]+$\","
           "\"nullable\":true},"
           "\"spots\":{\"type\":\"ARRAY\",\"items\":{\"type\":\"OBJECT\",\"properties\":"
           "{\"x\":{\"type\":\"NUMBER\",\"minimum\":0.5,\"nullable\":true}},\"required\":[\"x\"]},"
           "\"nullable\":true}},\"required\":[\"what\",\"tone\",\"spots\"]}}]}");
}

/* New: a tool whose description has paragraphs of these lengths, in two-byte characters. */
static json_t *wordy(size_t first, size_t second)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    int r = 0;
    for (size_t i = 0; i < first; i++) {
        r |= buf_append_text(&text, "\u00e4");
    }
    r |= buf_append_text(&text, "\n\n");
    for (size_t i = 0; i < second; i++) {
        r |= buf_append_text(&text, "b");
    }
    assert_int_equal(r, 0);
    return json_pack("[{s:s, s:s%, s:{s:s, s:{s:{s:s, s:s}}}}]", "name", "t", "description",
                     buf_bytes(&text), buf_size(&text), "inputSchema", "type", "object",
                     "properties", "p", "type", "string", "description", "P.");
}

static void expect_split(size_t first, size_t second, size_t kept, const char *property_end)
{
    json_t *tools = wordy(first, second);
    json_t *declared = bridge_declare(BRIDGE_OPENAI_CHAT, false, tools);
    json_t *function = json_object_get(json_array_get(declared, 0), "function");
    assert_int_equal(json_string_length(json_object_get(function, "description")), kept);
    const json_t *property = json_object_get(
        json_object_get(json_object_get(function, "parameters"), "properties"), "p");
    const char *about = json_string_value(json_object_get(property, "description"));
    size_t size = strlen(property_end);
    assert_true(strlen(about) >= size);
    assert_string_equal(about + strlen(about) - size, property_end);
    json_decref(declared);
    declared = bridge_declare(BRIDGE_ANTHROPIC, false, tools);
    assert_int_equal(
        json_string_length(json_object_get(json_array_get(declared, 0), "description")),
        2 * first + 2 + second);
    json_decref(declared);
    json_decref(tools);
}

static void text_too_long_for_openai_moves_to_a_parameter(void **)
{
    expect_split(1000, 22, 2024, "P.");                            /* 1,024 characters fit */
    expect_split(1000, 23, 2000, "P.\n\nbbbbbbbbbbbbbbbbbbbbbbb"); /* whole paragraphs */
    expect_split(1030, 3, 2048, "P.\n\n\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\n\nbbb");
}

static void only_known_formats_are_found(void **)
{
    assert_int_equal(bridge_format_find("gemini"), BRIDGE_GEMINI);
    assert_int_equal(bridge_format_find("openai"), BRIDGE_FORMAT_COUNT);
    assert_int_equal(bridge_format_find(""), BRIDGE_FORMAT_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_forms_have_the_schema_as_it_is),
        cmocka_unit_test(strict_forms_of_openai_require_all_and_allow_null),
        cmocka_unit_test(strict_form_of_anthropic_leaves_out_bounds_and_keeps_optional_ones),
        cmocka_unit_test(forms_of_gemini),
        cmocka_unit_test(text_too_long_for_openai_moves_to_a_parameter),
        cmocka_unit_test(only_known_formats_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
