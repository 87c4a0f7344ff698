#include <stdio.h>
#include <string.h>

#include "schema/schema.h"
#include "tests/unit/unit.h"

/* Checks arguments of a tool and compares all violations, one "pointer: text" a line. */
static void expect(const char *tool, const char *arguments, const char *expected)
{
    struct schema_violation violations[8];
    char text[8 * sizeof(struct schema_violation)] = "";
    json_t *value = json_loads(arguments, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    size_t count = schema_validate(schema_input(tool), value, violations, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        size_t used = strlen(text);
        int n = snprintf(text + used, sizeof text - used, "%s: %s\n", violations[i].pointer,
                         violations[i].text);
        assert_in_range(n, 1, sizeof text - used - 1);
    }
    assert_string_equal(text, expected);
    json_decref(value);
}

static void valid_arguments_pass(void **)
{
    expect("run_python", "{\"code\":\"1\"}", "");
    expect("run_python",
           "{\"code\":\"\",\"timeout_s\":2,\"stdin\":\"x\",\"reset\":true,\"session\":\"a-b.c_1\"}",
           "");
    expect("read_file", "{\"path\":\"a\",\"start_line\":-3,\"end_line\":4.0}", "");
    expect("write_file", "{\"path\":\"a\",\"content\":\"\",\"mode\":\"append\"}", "");
}

static void null_of_an_optional_property_is_absent(void **)
{
    expect("run_python", "{\"code\":\"1\",\"timeout_s\":null,\"session\":null}", "");
    expect("read_file", "{\"path\":null}",
           "/path: is required, got null; send a string: File or directory to read, such as "
           "out/result.csv: relative to the workspace or absolute.\n");
}

static void all_violations_are_reported_at_once(void **)
{
    expect("run_python", "{\"timeout_s\":\"abc\",\"reset\":1,\"session\":\"a b\",\"zzzzz\":1}",
           "/timeout_s: must be a number, got string \"abc\"\n"
           "/reset: must be true or false, got number 1\n"
           "/session: must match ^[A-Za-z0-9_.-]{1,64}$, got string \"a b\"\n"
           "/zzzzz: unknown argument. Known arguments: code, timeout_s, wait_s, job, stop, "
           "branch, stdin, reset, fresh, undo, checkpoint, restore, drop, session\n");
}

static void unknown_argument_gets_a_near_match(void **)
{
    expect("run_python", "{\"code\":\"1\",\"timeout\":3}",
           "/timeout: unknown argument, did you mean \"timeout_s\"? Known arguments: code, "
           "timeout_s, wait_s, job, stop, branch, stdin, reset, fresh, undo, checkpoint, restore, "
           "drop, session\n");
    expect("write_file", "{\"path\":\"a\",\"content\":\"\",\"file_path\":\"b\"}",
           "/file_path: unknown argument, did you mean \"path\"? Known arguments: path, content, "
           "old_text, new_text, encoding, mode\n");
    expect("write_file", "{\"path\":\"a\",\"content\":\"\",\"text\":\"b\"}",
           "/text: unknown argument. Known arguments: path, content, old_text, new_text, encoding, "
           "mode\n");
}

static void known_arguments_are_listed_once(void **)
{
    expect(
        "write_file", "{\"path\":\"a\",\"owner\":1,\"encodin\":2,\"group\":3}",
        "/owner: unknown argument. Known arguments: path, content, old_text, new_text, encoding, "
        "mode\n"
        "/encodin: unknown argument, did you mean \"encoding\"?\n"
        "/group: unknown argument\n");
}

static void ranges_and_choices(void **)
{
    expect("run_python", "{\"code\":\"1\",\"timeout_s\":0}",
           "/timeout_s: must be at least 0.1, got number 0\n");
    expect("read_file", "{\"path\":\"\"}", "/path: must have at least 1 character, got 0\n");
    expect("read_file", "{\"path\":\"a\",\"start_line\":1.5}",
           "/start_line: must be an integer, got number 1.5\n");
    expect("write_file", "{\"path\":\"a\",\"content\":\"\",\"mode\":\"w\"}",
           "/mode: must be one of \"overwrite\", \"create\", \"append\", got string \"w\"\n");
    expect("write_file", "[]", ": must be an object, got an array\n");
}

static void hostile_names_and_values_are_bounded(void **)
{
    json_t *value = json_object();
    struct schema_violation violation;
    char key[1000];
    memset(key, '/', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_int_equal(json_object_set_new(value, "code", json_integer(1)), 0);
    assert_int_equal(json_object_set_new(value, key, json_null()), 0);
    assert_int_equal(json_object_set_new(value, "session", json_string(key)), 0);
    assert_int_equal(schema_validate(schema_input("run_python"), value, &violation, 1), 3);
    assert_int_equal(schema_validate(schema_input("run_python"), value, NULL, 0), 3);
    json_decref(value);
    /* A NUL must not hide the rest of a string from the pattern. */
    value = json_pack("{s:s, s:s#}", "code", "", "session", "a\0 b", 4);
    assert_int_equal(schema_validate(schema_input("run_python"), value, NULL, 0), 1);
    json_decref(value);
}

static void expect_coerced(const char *schema_text, const char *before, const char *after)
{
    json_t *schema = json_loads(schema_text, 0, NULL);
    json_t *value = json_loads(before, 0, NULL);
    json_t *wanted = json_loads(after, 0, NULL);
    json_t *coerced = schema_coerce(schema, value);
    assert_true(json_equal(coerced, wanted));
    assert_int_equal(coerced == value, strcmp(before, after) == 0);
    json_decref(coerced);
    json_decref(wanted);
    json_decref(value);
    json_decref(schema);
}

static void common_mistakes_of_clients_are_corrected(void **)
{
    static const char schema[] =
        "{\"properties\":{\"n\":{\"type\":\"integer\"},\"l\":{\"type\":"
        "\"array\",\"items\":{\"type\":\"string\"}},\"r\":{}},"
        "\"required\":[\"r\"]}";
    expect_coerced(schema, "{\"n\":3.0,\"l\":\"a\",\"r\":null}",
                   "{\"n\":3,\"l\":[\"a\"],\"r\":null}");
    expect_coerced(schema, "{\"n\":null,\"r\":1}", "{\"r\":1}");
    expect_coerced(schema, "{\"n\":3,\"l\":[],\"x\":null}", "{\"n\":3,\"l\":[],\"x\":null}");
    expect_coerced(schema, "{\"n\":1.5,\"l\":5}", "{\"n\":1.5,\"l\":5}");
    expect_coerced(schema, "{\"n\":1e300}", "{\"n\":9223372036854775807}");
    expect_coerced(schema, "{\"n\":-9223372036854775809.0}", "{\"n\":-9223372036854775808}");
}

static void no_name_and_no_choice_are_absent(void **)
{
    static const char schema[] =
        "{\"properties\":{\"p\":{\"type\":\"string\",\"pattern\":\"^a\"},"
        "\"e\":{\"type\":\"string\",\"enum\":[\"x\"]},\"s\":{\"type\":\"string\"},"
        "\"r\":{\"type\":\"string\",\"pattern\":\"^a\"}},\"required\":[\"r\"]}";
    expect_coerced(schema, "{\"p\":\"\",\"e\":\"\",\"s\":\"\",\"r\":\"\"}",
                   "{\"s\":\"\",\"r\":\"\"}");
}

static void numbers_and_truth_values_may_be_strings(void **)
{
    static const char schema[] =
        "{\"properties\":{\"n\":{\"type\":\"integer\"},\"x\":{\"type\":\"number\"},"
        "\"b\":{\"type\":\"boolean\"},\"s\":{\"type\":\"string\"}}}";
    expect_coerced(schema, "{\"n\":\"-20\",\"x\":\" 2.5\",\"b\":\"False\",\"s\":\"7\"}",
                   "{\"n\":-20,\"x\":2.5,\"b\":false,\"s\":\"7\"}");
    expect_coerced(schema, "{\"n\":\"3.0\",\"b\":\"true\"}", "{\"n\":3,\"b\":true}");
    expect_coerced(schema, "{\"n\":\"1.5\"}", "{\"n\":1.5}");
    expect_coerced(schema, "{\"n\":\"7 lines\",\"x\":\"-\",\"b\":\"yes\"}",
                   "{\"n\":\"7 lines\",\"x\":\"-\",\"b\":\"yes\"}");
    expect_coerced(schema, "{\"n\":\"\",\"x\":\"\",\"b\":\"\",\"s\":\"\"}", "{\"s\":\"\"}");
    expect_coerced(schema, "{\"x\":\"[1]\",\"b\":\"1\"}", "{\"x\":\"[1]\",\"b\":\"1\"}");
}

static void strings_may_be_numbers_and_lists_strings(void **)
{
    static const char schema[] =
        "{\"properties\":{\"s\":{\"type\":\"string\"},\"l\":{\"type\":\"array\","
        "\"items\":{\"type\":\"string\"}},\"j\":{\"type\":\"integer\",\"minimum\":1},"
        "\"z\":{\"type\":\"integer\",\"minimum\":0},\"r\":{\"type\":\"integer\","
        "\"minimum\":1}},\"required\":[\"r\"]}";
    expect_coerced(schema, "{\"s\":7}", "{\"s\":\"7\"}");
    expect_coerced(schema, "{\"s\":0.1}", "{\"s\":\"0.1\"}");
    expect_coerced(schema, "{\"s\":true}", "{\"s\":true}");
    expect_coerced(schema, "{\"l\":\"[\\\"a\\\", \\\"b\\\"]\"}", "{\"l\":[\"a\",\"b\"]}");
    expect_coerced(schema, "{\"l\":\"[1]\"}", "{\"l\":[\"[1]\"]}");
    expect_coerced(schema, "{\"l\":\"[a\"}", "{\"l\":[\"[a\"]}");
    expect_coerced(schema, "{\"j\":0,\"z\":0,\"r\":0}", "{\"z\":0,\"r\":0}");
    expect_coerced(schema, "{\"j\":-1}", "{\"j\":-1}");
}

static size_t violations_of_foreign(const char *schema_text, json_t *value, char text[384])
{
    struct schema_violation violation = {};
    json_t *schema = json_loads(schema_text, 0, NULL);
    json_t *known = schema_foreign(schema);
    size_t count = schema_validate(known, value, &violation, 1);
    memcpy(text, violation.text, sizeof violation.text);
    json_decref(known);
    json_decref(schema);
    json_decref(value);
    return count;
}

static void foreign_patterns_that_take_long_are_not_tried(void **)
{
    static char text[384];
    static char many[8000];
    memset(many, 'a', sizeof many);
    assert_int_equal(violations_of_foreign("{\"pattern\": \".+@.+\"}", json_string("aaa"), text),
                     0);
    assert_int_equal(violations_of_foreign("{\"pattern\": \"^b\"}", json_stringn(many, 4096), text),
                     1);
    assert_int_equal(violations_of_foreign("{\"pattern\": \"^b\"}", json_stringn(many, 4097), text),
                     0);
    /* Our own are no matter how long the string is. */
    json_t *value = json_pack("{s:s, s:s#}", "code", "", "session", many, (int)sizeof many);
    assert_int_equal(schema_validate(schema_input("run_python"), value, NULL, 0), 1);
    json_decref(value);
}

static void null_is_a_value_of_foreign_schemas(void **)
{
    static const char schema[] =
        "{\"required\": [\"r\"], \"properties\": {\"r\": {}, \"i\": {\"type\": "
        "\"integer\"}, \"n\": {\"type\": [\"integer\", \"null\"]}}}";
    static char text[384];
    assert_int_equal(violations_of_foreign(schema, json_pack("{s:n, s:n}", "r", "n"), text), 0);
    assert_int_equal(violations_of_foreign(schema, json_pack("{s:n, s:n}", "r", "i"), text), 1);
    assert_string_equal(text, "must be an integer, got null");
    assert_int_equal(violations_of_foreign(schema, json_object(), text), 1);
    assert_string_equal(text, "is required but missing; send any value");
}

static json_t *array_of(const char *item, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(json_array_append_new(array, json_string(item)), 0);
    }
    return array;
}

static void a_validation_ends_when_it_has_taken_too_much(void **)
{
    static const char words[] = "{\"items\": {\"enum\": [\"a\", \"b\", \"c\", \"d\"]}}";
    static const char names[] = "{\"items\": {\"pattern\": \"^[a-z]+$\"}}";
    static char text[384];
    static char word[1001];
    memset(word, 'a', sizeof word - 1);
    assert_int_equal(violations_of_foreign(words, array_of("d", 300000), text), 0);
    assert_int_equal(violations_of_foreign(words, array_of("d", 450000), text), 1);
    assert_non_null(strstr(text, "is too much to check from here on"));
    assert_int_equal(violations_of_foreign(names, array_of(word, 2000), text), 0);
    assert_int_equal(violations_of_foreign(names, array_of(word, 5000), text), 1);
    assert_non_null(strstr(text, "is too much to check from here on"));
    size_t wrong = violations_of_foreign(words, array_of("x", 400000), text);
    assert_in_range(wrong, 1, 100000);
    assert_non_null(strstr(text, "must be one of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_arguments_pass),
        cmocka_unit_test(null_of_an_optional_property_is_absent),
        cmocka_unit_test(all_violations_are_reported_at_once),
        cmocka_unit_test(unknown_argument_gets_a_near_match),
        cmocka_unit_test(known_arguments_are_listed_once),
        cmocka_unit_test(ranges_and_choices),
        cmocka_unit_test(hostile_names_and_values_are_bounded),
        cmocka_unit_test(common_mistakes_of_clients_are_corrected),
        cmocka_unit_test(no_name_and_no_choice_are_absent),
        cmocka_unit_test(null_is_a_value_of_foreign_schemas),
        cmocka_unit_test(numbers_and_truth_values_may_be_strings),
        cmocka_unit_test(strings_may_be_numbers_and_lists_strings),
        cmocka_unit_test(foreign_patterns_that_take_long_are_not_tried),
        cmocka_unit_test(a_validation_ends_when_it_has_taken_too_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
