#include "base/word.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static void names_are_quoted_as_by_git(void **)
{
    static const char *const rows[][2] = {
        {"src/a b.py", "src/a b.py"},
        {"src/\303\251.py", "src/\303\251.py"},
        {"\346\227\245\n", "\"\346\227\245\\n\""},
        {"a\342\200\256b", "\"a\\342\\200\\256b\""},
        {"\355\240\200", "\"\\355\\240\\200\""},
        {"a\nb\tc\"d\\e\a\b\v\f\r", "\"a\\nb\\tc\\\"d\\\\e\\a\\b\\v\\f\\r\""},
        {"\x01\x7f\xff", "\"\\001\\177\\377\""},
        {"a'b$c|[d]", "a'b$c|[d]"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = BUF_EMPTY;
        assert_int_equal(quote_append(&out, "", rows[i][0], strlen(rows[i][0]), false), 0);
        assert_int_equal(buf_size(&out), strlen(rows[i][1]));
        assert_memory_equal(buf_bytes(&out), rows[i][1], buf_size(&out));
        buf_done(&out);
    }
}

static void a_prefix_stands_within_the_quotes(void **)
{
    struct buf out = BUF_EMPTY;
    assert_int_equal(quote_append(&out, "a/", "\n", 1, false), 0);
    assert_int_equal(quote_append(&out, "b/", "x", 1, false), 0);
    assert_int_equal(quote_append(&out, "b/", "x", 1, true), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(buf_bytes(&out), "\"a/\\n\"b/x\"b/x\"");
    buf_done(&out);
}

static void every_name_comes_back(void **)
{
    srand(1);
    for (unsigned i = 0; i < 20000; i++) {
        char name[12];
        struct buf out = BUF_EMPTY;
        struct buf back = BUF_EMPTY;
        size_t size = (size_t)rand() % sizeof name;
        for (size_t j = 0; j < size; j++) {
            name[j] = (char)(1 + rand() % 255);
        }
        assert_int_equal(quote_append(&out, "", name, size, true), 0);
        assert_int_equal(quote_parse(buf_bytes(&out), buf_size(&out), &back), 0);
        assert_int_equal(buf_size(&back), size);
        assert_memory_equal(size ? buf_bytes(&back) : "", name, size);
        buf_done(&out);
        buf_done(&back);
    }
}

static void other_texts_are_refused(void **)
{
    static const char *const rows[] = {"",         "\"",       "a",         "\"a",
                                       "a\"",      "\"\\\"",   "\"a\"b\"",  "\"\\000\"",
                                       "\"\\0\"",  "\"\\09\"", "\"\\400\"", "\"\\x41\"",
                                       "\"\\12\"", "\"\\q\"",  "\"\\12\"\""};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = BUF_EMPTY;
        assert_int_equal(quote_parse(rows[i], strlen(rows[i]), &out), -EINVAL);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_quoted_as_by_git),
        cmocka_unit_test(a_prefix_stands_within_the_quotes),
        cmocka_unit_test(every_name_comes_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
