#include "rpc/text.h"

#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static void expect_text(const char *bytes, size_t size, const char *expected)
{
    json_t *text = rpc_text(bytes, size);
    assert_non_null(text);
    assert_int_equal(json_string_length(text), strlen(expected));
    assert_string_equal(json_string_value(text), expected);
    json_decref(text);
}

static void broken_characters_become_replacements(void **)
{
    expect_text("", 0, "");
    expect_text("h\xC3\xA9", 3, "h\xC3\xA9");
    expect_text(
        "a\xFF"
        "b",
        3,
        "a\xEF\xBF\xBD"
        "b");
    expect_text("\xC3", 1, "\xEF\xBF\xBD");
    expect_text("\xE2\x82", 2, "\xEF\xBF\xBD");
    expect_text(
        "\xE2\x82"
        "x",
        3, "\xEF\xBF\xBDx");
    expect_text("\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"); /* a surrogate */
    expect_text("\xC0\xAF", 2, "\xEF\xBF\xBD\xEF\xBF\xBD");                 /* overlong */
    expect_text("\xF4\x90\x80\x80", 4,
                "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"); /* past U+10FFFF */
}

static void dump_splits_no_line(void **)
{
    static const char bytes[] = "a\n\x1b\x7f\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA\xC3\xA9\"";
    struct buf out = BUF_EMPTY;
    json_t *text = rpc_text(bytes, sizeof bytes - 1);
    assert_int_equal(rpc_text_dump(&out, text), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out),
                        "\"a\\n\\u001B\\u007F\\u0085\\u2028\\u2029\xE2\x80\xAA\xC3\xA9\\\"\"");
    json_decref(text);
    buf_done(&out);
}

static void nul_survives(void **)
{
    json_t *text = rpc_text("a\0\xFF", 3);
    assert_int_equal(json_string_length(text), 5);
    json_decref(text);
}

static void expect_fitting(const char *bytes, size_t scratch, size_t size, size_t rest)
{
    size_t left = scratch;
    assert_int_equal(rpc_text_fitting(bytes, strlen(bytes), &left), size);
    assert_int_equal(left, rest);
}

static void fitting_counts_what_is_sent(void **)
{
    expect_fitting("abc", 5, 3, 2);
    expect_fitting("abcdef", 5, 5, 0);
    expect_fitting("abc", 0, 0, 0);
    expect_fitting("\t\n\"\\", 4, 4, 0);
    expect_fitting("a\x01z", 8, 3, 0);
    expect_fitting("a\x01z", 6, 1, 5); /* the control character takes six */
    expect_fitting("\x7f\x1b", 11, 1, 5);
    expect_fitting("\xC2\x85z", 6, 2, 0);     /* a C1 control character */
    expect_fitting("\xE2\x80\xA8z", 7, 4, 0); /* a line separator */
    expect_fitting("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 3, 9, 0);
    expect_fitting("\xC3\xA9\xE2\x82\xAC", 1, 2, 0); /* whole characters only */
    expect_fitting("\xFF\xE2\x82z", 3, 4, 0);        /* each broken part takes one */
}

static void expect_json(const char *bytes, const char *dumped)
{
    struct buf out = BUF_EMPTY;
    json_t *value = rpc_text_value(bytes, strlen(bytes), 3);
    assert_int_equal(value != NULL, dumped != NULL);
    if (value) {
        assert_int_equal(rpc_text_dump(&out, value), 0);
        assert_int_equal(buf_append(&out, "", 1), 0);
        assert_string_equal(buf_bytes(&out), dumped);
    }
    json_decref(value);
    buf_done(&out);
}

static void only_sound_json_is_a_value(void **)
{
    expect_json("5", "5");
    expect_json("[1, {\"a\": [null]}]", "[1,{\"a\":[null]}]");
    expect_json("\"\\u0000\xE2\x80\xA8\"", "\"\\u0000\\u2028\"");
    expect_json("[[[[1]]]]", NULL); /* too deep */
    expect_json("{\"a\": 1, \"a\": 2}", NULL);
    expect_json("NaN", NULL);
    expect_json("[1", NULL);
    expect_json("1 2", NULL);
    expect_json("\"\xFF\"", NULL);
    expect_json("9223372036854775808", NULL);
    expect_json("", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_characters_become_replacements),
        cmocka_unit_test(dump_splits_no_line),
        cmocka_unit_test(nul_survives),
        cmocka_unit_test(only_sound_json_is_a_value),
        cmocka_unit_test(fitting_counts_what_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
