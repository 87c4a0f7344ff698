#include "base/word.h"

#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static char out[WORD_BYTES + 1];

static const char *show(const char *word)
{
    return word_show(word, strlen(word), out, sizeof out);
}

static void ordinary_names_are_shown_as_they_are(void **)
{
    static const char *const names[] = {
        "report.csv",
        "日本語.txt",
        "my file.txt",
        "größe",
        "a/b-c_d+e.tar.gz",
        "x=1&y=2",
        "DataFrame 10x2",
        "Привет мир",
        "שלום.txt",
        "café",
        "re\xcc\x81sume",
        "C#",
        "Bob's notes.txt",
        "🙂.png",
        "#tmp#",
        "~lock",
        "a:b",
        "50%",
        "KeyError",
        "json.decoder.JSONDecodeError",
        "2.0.1+cpu",
        "{a}",
        "<lambda>",
        "$x",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(show(names[i]), names[i]);
    }
}

static void text_that_could_end_a_part_or_a_line_is_quoted(void **)
{
    static const struct {
        const char *word;
        const char *shown;
    } words[] = {
        {"", "\"\""},
        {"a | b", "\"a \\x7c b\""},
        {"X] [ok", "\"X\\x5d \\x5bok\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"a\nb\tc\rd", "\"a\\nb\\tc\\rd\""},
        {"a (0 B)", "\"a (0 B)\""},
        {"a, b", "\"a, b\""},
        {"a; b", "\"a; b\""},
        {"note: x", "\"note: x\""},
        {"note:", "\"note:\""},
        {"a +b", "\"a +b\""},
        {"a --mount-home", "\"a --mount-home\""},
        {"a -> b", "\"a -> b\""},
        {"ask the user to restart", "\"ask the user to restart\""},
        {" a", "\" a\""},
        {"a ", "\"a \""},
        {"a  b", "\"a  b\""},
        {"\033]52;c;eA==\a", "\"\\x1b\\x5d52;c;eA==\\x07\""},
        {"a\u2028b", "\"a\\u2028b\""},
        {"a\xc2\x85"
         "b",
         "\"a\\x85b\""},
        {"a\u202Egpj.exe", "\"a\\u202egpj.exe\""},
        {"a\u200Bb", "\"a\\u200bb\""},
        {"a\U000E0041b", "\"a\\U000e0041b\""},
        {"a\uFE0Fb", "\"a\\ufe0fb\""},
        {"a\u00A0b", "\"a\\xa0b\""},
        {"\u0301a", "\"\\u0301a\""},
        {"a\u201D b", "\"a\\u201d b\""},
        {"a │ b", "\"a │ b\""},
        {"a\xff"
         "b\xed\xa0\x80",
         "\"a\\udcffb\\udced\\udca0\\udc80\""},
    };
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        assert_string_equal(show(words[i].word), words[i].shown);
    }
    assert_string_equal(word_show("a\0b", 3, out, sizeof out), "\"a\\x00b\"");
}

static void sentence_is_quoted_always(void **)
{
    assert_string_equal(word_quote("plain", 5, out, sizeof out), "\"plain\"");
}

static void long_word_is_cut_behind_a_whole_character(void **)
{
    char small[16];
    assert_string_equal(word_show("0123456789", 10, small, sizeof small), "0123456789");
    assert_string_equal(word_show("0123456789abcdefg", 17, small, sizeof small),
                        "\"0123456789\"...");
    assert_string_equal(word_show("12345678\u202E", 11, small, sizeof small), "\"12345678\"...");
    assert_string_equal(word_show("123456789ü-ü-", 15, small, sizeof small), "123456789ü-ü-");
    assert_string_equal(word_quote("123456789ü-ü-", 15, small, sizeof small), "\"123456789\"...");
}

static void line_keeps_its_own_signs(void **)
{
    assert_string_equal(word_line("a | \"b\" [c]\n\033[2K\u202E", out, sizeof out),
                        "a | \"b\" [c]\\n\\x1b[2K\\u202e");
    char small[6];
    assert_string_equal(word_line("1234\033", small, sizeof small), "1234");
}

static void appended_words_are_bounded(void **)
{
    char many[5000];
    struct buf buf = BUF_EMPTY;
    memset(many, '\033', sizeof many);
    assert_int_equal(word_append(&buf, many, sizeof many), 0);
    assert_true(buf_size(&buf) <= WORD_BYTES);
    buf_clear(&buf, 0);
    assert_int_equal(word_append_quoted(&buf, many, sizeof many), 0);
    assert_true(buf_size(&buf) <= WORD_PHRASE);
    buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_names_are_shown_as_they_are),
        cmocka_unit_test(text_that_could_end_a_part_or_a_line_is_quoted),
        cmocka_unit_test(sentence_is_quoted_always),
        cmocka_unit_test(long_word_is_cut_behind_a_whole_character),
        cmocka_unit_test(line_keeps_its_own_signs),
        cmocka_unit_test(appended_words_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
