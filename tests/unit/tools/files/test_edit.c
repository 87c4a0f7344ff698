#include "tools/files/read_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "tests/unit/unit.h"

/* Replaces old_text by new_text and expects the text and the lines, or (after NULL) the refusal. */
static void expect(const char *text, const char *old_text, const char *new_text, const char *after,
                   const char *said)
{
    struct edit edit = {old_text, strlen(old_text), new_text, strlen(new_text)};
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    OWNED(buf_done) struct buf lines = BUF_EMPTY;
    assert_int_equal(edit_apply(text, strlen(text), &edit, &bytes, &lines), after ? 0 : 1);
    assert_int_equal(buf_append(&bytes, "", 1), 0);
    assert_int_equal(buf_append(&lines, "", 1), 0);
    assert_string_equal(buf_bytes(&bytes), after ? after : "");
    assert_string_equal(buf_bytes(&lines), said);
}

static void the_only_place_is_replaced(void **)
{
    expect("a\nb\nc\n", "b", "B", "a\nB\nc\n", "line 2; 3 lines in all");
    expect("a\nb\nc\n", "b\nc\n", "x\ny\nz\n", "a\nx\ny\nz\n",
           "lines 2-3, now 2-4; 4 lines in all");
    expect("a\nb\nc", "c", "", "a\nb\n", "line 3; 2 lines in all");
    expect("a\nb\nc\n", "a\nb\n", "", "c\n", "lines 1-2 removed; 1 line in all");
    expect("ab\ncd\n", "b\nc", "", "ad\n", "lines 1-2, now 1; 1 line in all");
    expect("a", "a", "", "", "line 1; 0 lines in all");
    expect("aXa\n", "X", "%s\\1$&", "a%s\\1$&a\n", "line 1; 1 line in all");
}

static void other_numbers_of_places_are_refused(void **)
{
    static const char more[] = ". Send more of the text around the one to change.";
    char said[200];
    (void)snprintf(said, sizeof said, ": old_text is at 3 places, lines 1, 3, 3%s", more);
    expect("ab\nc\nab ab\n", "ab", "x", NULL, said);
    (void)snprintf(said, sizeof said, ": old_text is at 2 places, lines 1, 2%s", more);
    expect("-\n-\n-", "-\n-", "x", NULL, said); /* they overlap */
    expect("a\n", "\n\n", "x", NULL,
           ": old_text is not in the file. Copy the text as read_file shows it.");
}

static void what_is_nearly_in_the_file_is_named(void **)
{
    static const char text[] = "def f(x):\n\ty = g(x, 2)\n\n    return y\n\nf(1)\n";
    static const char *const cases[][2] = {
        {"y = g(x,2)", "; line 2 is the same but for white space"},
        {"    y = g(x, 2)\n\n\n\treturn y\n", "; lines 2-4 are the same but for white space"},
        {"def f(x):\n  y = g(x, 2)\n\n  return x\n",
         "; lines 1-4 are like it, but line 4 is \"    return y\""},
        {"def f(z):\n\ty = g(x, 2)\n\n", "; lines 1-3 are like it, but line 1 is \"def f(x):\""},
        {"\n\tf(1)\n\nf(2)", "; lines 5-6 are like it, but there the file ends"},
        {"y\xc2\xa0= g(x,\xc2\xa0"
         "2)",
         "; line 2 is the same but for typography: old_text has \"\\xa0\""},
        {"y = g(x, 3)", ""},
        {"a\nb\n\nreturn y\n", ""},
        {"\n\n\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[200];
        (void)snprintf(said, sizeof said,
                       ": old_text is not in the file%s. Copy the text as read_file shows it.",
                       cases[i][1]);
        expect(text, cases[i][0], "x", NULL, said);
    }
    expect("", "two", "x", NULL,
           ": old_text is not in the file. Copy the text as read_file shows it.");
}

static void typography_in_place_of_what_is_typed_is_named(void **)
{
    static const char text[] =
        "He said \xe2\x80\x9cno\xe2\x80\x9d.\nA\xc2\xa0\xe2\x80\x93 b\xe2\x80\xa6\n\"x\"\n";
    static const char *const cases[][2] = {
        {"He said \"no\".",
         "; line 1 is the same but for typography: the file has \"\\u201c\", the file has "
         "\"\\u201d\""},
        {"A - b...",
         "; line 2 is the same but for typography: the file has \"\\xa0\", the file has "
         "\"\xe2\x80\x93\", the file has \"\xe2\x80\xa6\""},
        {"\xe2\x80\x9cx\xe2\x80\x9d",
         "; line 3 is the same but for typography: old_text has \"\\u201c\", "
         "old_text has \"\\u201d\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[300];
        (void)snprintf(said, sizeof said,
                       ": old_text is not in the file%s. Copy the text as read_file shows it.",
                       cases[i][1]);
        expect(text, cases[i][0], "y", NULL, said);
    }
}

static void other_forms_of_characters_are_named(void **)
{
    static const char text[] =
        "# Re\xcc\x81sume\xcc\x81\n" /* decomposed */
        "caf\xc3\xa9 \xea\xb0\x80\n" /* composed */
        "name\xe2\x80\x8b = x\xc2\xad\xef\xbb\xbfy\n"
        "\xe4\xbb\xb7\xef\xbc\x9a\xef\xbc\x91\xef\xbc\x90\xef\xbc\x88\xe5\x85\x83\xef\xbc\x89\n";
    static const char *const cases[][2] = {
        {"# R\xc3\xa9sum\xc3\xa9",
         "; line 1 is the same but for typography: old_text has \"\xc3\xa9\" in one piece (NFC)"},
        {"cafe\xcc\x81 \xe1\x84\x80\xe1\x85\xa1",
         "; line 2 is the same but for typography: the file has \"\xc3\xa9\" in one piece (NFC), "
         "the file has \"\xea\xb0\x80\" in one piece (NFC)"},
        {"name = xy",
         "; line 3 is the same but for typography: the file has \"\\u200b\", the file has "
         "\"\\xad\", the file has \"\\ufeff\""},
        {"\xe4\xbb\xb7:10(\xe5\x85\x83)",
         "; line 4 is the same but for typography: the file has \"\xef\xbc\x9a\", the file has "
         "\"\xef\xbc\x91\", the file has \"\xef\xbc\x90\", the file has \"\xef\xbc\x88\", the "
         "file has \"\xef\xbc\x89\""},
        {"caf\xc3\xa8", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[400];
        (void)snprintf(said, sizeof said,
                       ": old_text is not in the file%s. Copy the text as read_file shows it.",
                       cases[i][1]);
        expect(text, cases[i][0], "y", NULL, said);
    }
}

static void very_many_places_are_bounded(void **)
{
    char text[5001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect(text, "a", "b", NULL,
           ": old_text is at more than 1000 places, lines 1, 1, 1, 1, 1, 1, 1, 1 and others. Send "
           "more of "
           "the text around the one to change.");
}

static void line_ends_stay_those_of_the_file(void **)
{
    expect("a\r\nb\r\nc\r\n", "b\nc\n", "x\ny\n", "a\r\nx\r\ny\r\n", "lines 2-3; 3 lines in all");
    expect("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n", "line 2, now 2-3; 3 lines in all");
    expect("a\r\nb\r\n", "a\r\n", "x\r\ny\n", "x\r\ny\r\nb\r\n", "line 1, now 1-2; 3 lines in all");
    expect("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n", "lines 1-2; 2 lines in all");
    /* With both kinds, the text that is sent decides. */
    expect("a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n", "lines 2-3; 3 lines in all");
    expect("a\r\nb\nc\n", "a\nb", "x\ny", "x\r\ny\nc\n", "lines 1-2; 3 lines in all");
    expect("a\nb\r\nc\n", "b\r\n", "x\n", "a\nx\nc\n", "line 2; 3 lines in all");
    expect("a\nb", "a", "x\r\ny", "x\r\ny\nb", "line 1, now 1-2; 3 lines in all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_place_is_replaced),
        cmocka_unit_test(other_numbers_of_places_are_refused),
        cmocka_unit_test(what_is_nearly_in_the_file_is_named),
        cmocka_unit_test(typography_in_place_of_what_is_typed_is_named),
        cmocka_unit_test(other_forms_of_characters_are_named),
        cmocka_unit_test(very_many_places_are_bounded),
        cmocka_unit_test(line_ends_stay_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
