#include "tools/servers/tool_calls.h"

#include <string.h>

#include "base/own.h"
#include "tests/unit/unit.h"

#define OBJECT(properties) "{\"type\":\"object\",\"properties\":" properties "}"

/* The form as compact JSON, NULL: there is none. */
static char *form_of(const char *text)
{
    json_auto_t *schema = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    assert_non_null(schema);
    json_auto_t *form = tool_form_new(schema);
    return form ? json_dumps(form, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
}

static void expect(const char *text, const char *expected)
{
    defer_free char *form = form_of(text);
    assert_string_equal(form ? form : "none", expected);
}

/* Of a form with this property alone. */
static void expect_property(const char *property, const char *expected)
{
    defer_free char *text = NULL;
    defer_free char *whole = NULL;
    assert_true(asprintf(&text, OBJECT("{\"a\":%s}"), property) > 0);
    assert_true(asprintf(&whole, OBJECT("{\"a\":%s}"), expected) > 0);
    expect(text, strcmp(expected, "none") == 0 ? expected : whole);
}

static void what_the_protocol_has_is_kept(void **)
{
    static const char *const properties[] = {
        "{\"type\":\"string\",\"title\":\"T\",\"description\":\"D\",\"minLength\":0,"
        "\"maxLength\":9,\"format\":\"date-time\",\"default\":\"x\"}",
        "{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"enumNames\":[\"A\",\"B\"],\"default\":"
        "\"a\"}",
        "{\"type\":\"string\",\"oneOf\":[{\"const\":\"a\",\"title\":\"A\"}]}",
        "{\"type\":\"integer\",\"minimum\":-1,\"maximum\":2.5,\"default\":0}",
        "{\"type\":\"number\",\"default\":0.5}",
        "{\"type\":\"boolean\",\"title\":\"T\",\"default\":false}",
        "{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"enum\":[\"a\"],"
        "\"type\":\"string\"},\"default\":[\"a\"]}",
        "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"a\",\"title\":\"A\"}]}}",
    };
    for (unsigned i = 0; i < sizeof properties / sizeof *properties; i++) {
        expect_property(properties[i], properties[i]);
    }
    expect(OBJECT("{}"), OBJECT("{}"));
    expect(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}},\"required\":[\"a\"]}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"}},\"required\":[\"a\"]}");
}

static void all_else_is_left_out(void **)
{
    expect(
        "{\"$schema\":\"x\",\"title\":\"X\",\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
        "\"boolean\",\"pattern\":\"x\",\"default\":null}},\"required\":[\"b\",1]}",
        OBJECT("{\"a\":{\"type\":\"boolean\"}}"));
    expect_property(
        "{\"title\":\"T\",\"anyOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":"
        "\"null\"}],\"default\":null}",
        "{\"type\":\"integer\",\"title\":\"T\",\"minimum\":1}");
    expect_property("{\"type\":\"string\",\"format\":\"password\",\"default\":\"a\\nb\"}",
                    "{\"type\":\"string\"}");
}

static void what_a_person_reads_is_visible_and_short(void **)
{
    defer_free char *text = NULL;
    expect_property(
        "{\"type\":\"string\",\"title\":\"a\\u001b\\u202e\",\"enum\":[\"x\"],"
        "\"enumNames\":[\"\\n\"]}",
        "{\"type\":\"string\",\"title\":\"a\\\\x1b\\\\u202e\",\"enum\":[\"x\"],"
        "\"enumNames\":[\"\\\\n\"]}");
    assert_true(asprintf(&text, OBJECT("{\"a\":{\"type\":\"string\",\"title\":\"%0999d\"}}"), 0) >
                0);
    defer_free char *form = form_of(text);
    assert_non_null(form);
    assert_true(strlen(form) < 300);
}

static void what_is_no_form_is_none(void **)
{
    static const char *const schemas[] = {
        "[]",
        "{}",
        "{\"type\":\"object\"}",
        "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}",
        "{\"anyOf\":[1,{\"type\":\"null\"}]}",
        "{\"type\":\"x\",\"properties\":{}}",
        "{\"type\":\"object\",\"properties\":[]}",
        OBJECT("{\"a\\u001b\":{\"type\":\"string\"}}")};
    static const char *const properties[] = {
        "1",
        "{}",
        "{\"type\":[\"string\"]}",
        "{\"type\":\"object\"}",
        "{\"type\":\"string\",\"title\":5}",
        "{\"type\":\"string\",\"title\":\"\\u0000\"}",
        "{\"type\":\"string\",\"minLength\":-1}",
        "{\"type\":\"string\",\"format\":1}",
        "{\"type\":\"string\",\"default\":1}",
        "{\"type\":\"string\",\"enum\":\"a\"}",
        "{\"type\":\"string\",\"enum\":[1]}",
        "{\"type\":\"string\",\"enum\":[\"\\u202e\"]}",
        "{\"type\":\"string\",\"enum\":[\"a\"],\"enumNames\":[]}",
        "{\"type\":\"string\",\"oneOf\":[{\"const\":\"a\"}]}",
        "{\"type\":\"string\",\"oneOf\":[{\"const\":\"a\\u001b\",\"title\":\"A\"}]}",
        "{\"type\":\"number\",\"maximum\":\"1\"}",
        "{\"type\":\"boolean\",\"default\":0}",
        "{\"type\":\"array\"}",
        "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
        "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"anyOf\":[{\"type\":\"string\"}]}}",
    };
    for (unsigned i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        expect(schemas[i], "none");
    }
    for (unsigned i = 0; i < sizeof properties / sizeof *properties; i++) {
        expect_property(properties[i], "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_else_is_left_out),
        cmocka_unit_test(what_a_person_reads_is_visible_and_short),
        cmocka_unit_test(what_is_no_form_is_none),
        cmocka_unit_test(what_the_protocol_has_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
