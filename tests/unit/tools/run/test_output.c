#include "tools/run/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "tests/unit/unit.h"

enum { OUT, ERR, HEAD = LIMIT_OUTPUT_HEAD_BYTES, TAIL = LIMIT_OUTPUT_TAIL_BYTES };

static struct output output;
static struct buf text;

static int set_up(void **)
{
    output_init(&output);
    text = BUF_EMPTY;
    return 0;
}

static int tear_down(void **)
{
    output_done(&output);
    buf_done(&text);
    return 0;
}

static void add(unsigned stream, const char *bytes)
{
    output_add(&output, stream, bytes, strlen(bytes));
}

/* The text that a model gets of all that was added, NUL-terminated. */
static const char *compose(void)
{
    buf_clear(&text, 0);
    assert_int_equal(output_compose(&output, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    return buf_bytes(&text);
}

/* The same for a lone piece of stdout. */
static const char *cleaned(const char *bytes)
{
    output_done(&output);
    add(OUT, bytes);
    return compose();
}

/* Lines of 16 bytes, each with its number. */
static void add_lines(unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char line[32];
        (void)snprintf(line, sizeof line, "line %010u\n", first + i);
        add(OUT, line);
    }
}

static void nothing_stays_nothing(void **)
{
    assert_string_equal(compose(), "");
    output_add(&output, OUT, "", 0);
    assert_string_equal(compose(), "");
    assert_int_equal(output.total, 0);
}

static void last_line_gets_its_line_feed(void **)
{
    assert_string_equal(cleaned("a\n\nb"), "a\n\nb\n");
    assert_string_equal(cleaned("a\n"), "a\n");
}

static void text_is_appended(void **)
{
    add(OUT, "10%\rx\n");
    assert_int_equal(buf_append_text(&text, "before\n"), 0);
    assert_int_equal(output_compose(&output, &text), 0);
    assert_int_equal(buf_size(&text), 9);
    assert_memory_equal(buf_bytes(&text), "before\nx\n", 9);
}

static void equal_lines_are_counted(void **)
{
    static const char begin[] = "the same warning\n… the line above 399 times more …\n";
    char expected[200];
    for (unsigned i = 0; i < 400; i++) {
        add(OUT, "the same warning\n");
    }
    assert_string_equal(compose(), begin);
    add(OUT, "another\nanother\n\n\n\n");
    (void)snprintf(expected, sizeof expected, "%sanother\nanother\n\n\n\n", begin);
    assert_string_equal(compose(), expected);
    add(ERR, "x\nx\n");
    (void)snprintf(expected, sizeof expected, "%sanother\nanother\n\n\n\n[stderr]\nx\nx\n", begin);
    assert_string_equal(compose(), expected);
}

static void equal_lines_beside_what_is_cut_are_counted(void **)
{
    for (unsigned i = 0; i < 2000; i++) {
        add(OUT, "the same warning\n");
    }
    const char *cut = compose();
    assert_true(strlen(cut) < 200);
    assert_non_null(strstr(cut, "bytes omitted"));
}

static void rounds_of_lines_are_counted(void **)
{
    for (unsigned i = 0; i < 80; i++) {
        add(OUT, "a.py:3: UserWarning: slow\n  warnings.warn(\n");
    }
    assert_string_equal(compose(),
                        "a.py:3: UserWarning: slow\n  warnings.warn(\n"
                        "… the 2 lines above 79 times more …\n");
    assert_string_equal(cleaned("a\nb\nc\na\nb\nc\na\nb\n"), "a\nb\nc\na\nb\nc\na\nb\n");
    output_done(&output);
    for (unsigned i = 0; i < 90; i++) {
        add(OUT, "one\n");
        add(ERR, "two\n");
    }
    assert_string_equal(compose(),
                        "one\n[stderr]\ntwo\n[stdout]\n"
                        "… the 4 lines above 88 times more …\n"
                        "one\n[stderr]\ntwo\n");
}

static void few_equal_lines_may_be_data(void **)
{
    char line[1001];
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    line[sizeof line - 1] = '\0';
    for (unsigned i = 0; i < 8; i++) {
        add(OUT, line);
    }
    assert_null(strstr(compose(), "more …"));
    add(OUT, line);
    assert_non_null(strstr(compose(), "x\n… the line above 8 times more …\n"));
}

/* 1,000 lines of 16 bytes fill head and tail to the last byte. */
static void output_at_the_limit_is_whole_one_byte_over_is_cut(void **)
{
    add_lines(0, (HEAD + TAIL) / 16);
    const char *whole = compose();
    assert_int_equal(strlen(whole), HEAD + TAIL);
    assert_null(strstr(whole, "omitted"));
    for (unsigned i = 0; i < (HEAD + TAIL) / 16; i++) {
        char line[32];
        (void)snprintf(line, sizeof line, "line %010u\n", i);
        assert_memory_equal(whole + (size_t)i * 16, line, 16);
    }
    add(OUT, "x");
    const char *cut = compose();
    const char *note = strstr(cut, "\n… 16 bytes omitted …\n");
    assert_non_null(note);
    assert_int_equal(note + 1 - cut, HEAD);
    assert_non_null(strstr(note, "…\nline 0000000401\n"));
    assert_string_equal(cut + strlen(cut) - 18, "line 0000000999\nx\n");
}

static void head_alone_needs_no_tail(void **)
{
    add_lines(0, HEAD / 16);
    assert_null(output.tail);
    assert_int_equal(strlen(compose()), HEAD);
    add(OUT, "x");
    assert_non_null(output.tail);
    assert_int_equal(strlen(compose()), HEAD + 2);
}

static void beginning_and_end_of_a_flood_are_kept_in_order(void **)
{
    enum { LINES = 100003 };
    add_lines(0, LINES);
    const char *whole = compose();
    unsigned next = 0;
    unsigned jumps = 0;
    for (const char *line = whole; *line; line = strchr(line, '\n') + 1) {
        char expected[32];
        (void)snprintf(expected, sizeof expected, "line %010u\n", next);
        if (strncmp(line, expected, 16) == 0) {
            next++;
        } else {
            jumps++;
            assert_memory_equal(line, "… ", 4);
            next = LINES - TAIL / 16;
            /* A tail that begins with a whole line looks like one that does not. */
            next += strstr(line, "line") && strncmp(strchr(line, '\n') + 1, "line", 4) == 0;
        }
    }
    assert_int_equal(next, LINES);
    assert_int_equal(jumps, 1);
    assert_true(output.total == (uint64_t)LINES * 16);
}

/* However the same bytes come in, the same is kept; the ring wraps at every offset. */
static void pieces_make_no_difference(void **)
{
    enum { SIZE = 70001 };
    static char bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = i % 61 == 60 ? '\n' : (char)('a' + i * 7 % 26);
    }
    output_add(&output, OUT, bytes, SIZE);
    char *whole = strdup(compose());
    static const size_t pieces[] = {1, 3, 1000, TAIL - 1, TAIL, TAIL + 1, HEAD, 65536};
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        output_done(&output);
        for (size_t at = 0; at < SIZE; at += pieces[i]) {
            size_t rest = SIZE - at;
            output_add(&output, OUT, bytes + at, rest < pieces[i] ? rest : pieces[i]);
        }
        assert_string_equal(compose(), whole);
    }
    free(whole);
}

static void streams_are_named_only_when_both_are_used(void **)
{
    add(ERR, "warning\n");
    assert_string_equal(compose(), "warning\n");
    add(OUT, "a\n");
    assert_string_equal(compose(), "[stderr]\nwarning\n[stdout]\na\n");
    output_done(&output);
    add(OUT, "a");
    add(OUT, "b");
    add(ERR, "c");
    add(OUT, "d");
    assert_string_equal(compose(), "ab\n[stderr]\nc\n[stdout]\nd\n");
    assert_int_equal(output.total, 4);
    assert_int_equal(output.stream_bytes[OUT], 3);
    assert_int_equal(output.stream_bytes[ERR], 1);
}

static void stream_is_named_again_behind_the_cut(void **)
{
    char line[64];
    add(OUT, "begin\n");
    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(line, sizeof line, "problem %07u\n", i);
        add(ERR, line);
    }
    add_lines(0, 1000);
    assert_non_null(strstr(compose(), "bytes omitted …\n[stdout]\nline "));
    add(ERR, "end\n");
    const char *whole = compose();
    assert_non_null(strstr(whole, "bytes omitted …\n[stdout]\nline "));
    assert_string_equal(whole + strlen(whole) - 13, "[stderr]\nend\n");
    /* The head's end and the tail's start are of one stream: nothing has changed. */
    output_done(&output);
    add(OUT, "begin\n");
    for (unsigned i = 0; i < 3000; i++) {
        add(ERR, "problem 00000000000000000000\n");
    }
    assert_non_null(strstr(compose(), "bytes omitted …\nproblem"));
}

static void nuls_are_removed_and_forge_no_change_of_stream(void **)
{
    static const char bytes[] = "a\0b\0\0Ec\0";
    output_add(&output, OUT, bytes, sizeof bytes - 1);
    add(ERR, "e\n");
    assert_string_equal(compose(), "abEc\n[stderr]\ne\n");
    assert_int_equal(output.total, sizeof bytes - 1 + 2);
    output_done(&output);
    output_add(&output, OUT, "\0\0\0", 3);
    assert_string_equal(compose(), "");
}

static void progress_is_folded_to_its_last_state(void **)
{
    assert_string_equal(cleaned("10%\r50%\r100%\ndone\n"), "100%\ndone\n");
    assert_string_equal(cleaned("10%\r"), "10%\n");
    assert_string_equal(cleaned("dos\r\nlines\r\n"), "dos\nlines\n");
    assert_string_equal(cleaned("kept\n10%\r\r\033[K20%"), "kept\n20%\n");
    assert_string_equal(cleaned("epoch 1 10%\repoch 1 9%\repoch 2\n"), "epoch 2\n");
    assert_string_equal(cleaned("| load\r/ load\r\342\240\213 load"), "\342\240\213 load\n");
    assert_string_equal(cleaned("fetching\r        \rready\n"), "ready\n");
    assert_string_equal(cleaned("10%\r\b\a20%"), "20%\n");
    output_done(&output);
    add(OUT, "10%\r20%");
    add(ERR, "\r30%\r40%");
    assert_string_equal(compose(), "20%\n[stderr]\n40%\n");
}

static void lines_that_end_with_a_carriage_return_are_kept(void **)
{
    assert_string_equal(cleaned("name,qty\rapple,3\rpear,4\r"), "name,qty\napple,3\npear,4\n");
    assert_string_equal(cleaned("abcdef\rxy"), "abcdef\nxy\n");
    assert_string_equal(cleaned("\303\251t\303\251\r\303\251tat\n"),
                        "\303\251t\303\251\n\303\251tat\n");
    assert_string_equal(cleaned("load 1\rload 2\rready\n"), "load 2\nready\n");
}

static void backspace_takes_one_character(void **)
{
    assert_string_equal(cleaned("abc\b\bd"), "ad\n");
    assert_string_equal(cleaned("a\n\b\bb"), "a\nb\n");
    assert_string_equal(cleaned("xé\by"), "xy\n");
    assert_string_equal(cleaned("x€\b\b\by"), "y\n");
    assert_string_equal(cleaned("-\b\\\b|\b/"), "/\n");
}

static void terminal_sequences_go_whole(void **)
{
    assert_string_equal(cleaned("\033[1;31mred\033[0m \033[?25lx\033[38:2::1:2:3mk"), "red xk\n");
    assert_string_equal(cleaned("\033]0;title\atext"), "text\n");
    assert_string_equal(cleaned("\033]8;;http://x/\033\\link\033]8;;\033\\."), "link.\n");
    assert_string_equal(cleaned("\033(Ba\033)0b\0337c\033=d\033cE"), "abcdE\n");
    assert_string_equal(cleaned("\033P1$r0m\033\\x"), "x\n");
    assert_string_equal(cleaned("a\033"), "a\n");
    assert_string_equal(cleaned("a\033["), "a\n");
    assert_string_equal(cleaned("bell\a \vtab\t\001."), "bell tab\t.\n");
}

static void sequence_without_end_hides_no_more_than_its_line(void **)
{
    assert_string_equal(cleaned("\033]0;no end\nnext\n"), "\nnext\n");
    assert_string_equal(cleaned("\033[12\nnext\n"), "\nnext\n");
    assert_string_equal(cleaned("\033[é\n"), "é\n");
    output_done(&output);
    add(OUT, "x\033");
    add(ERR, "e\033[");
    add(OUT, "o\033]y");
    add(ERR, "z");
    assert_string_equal(compose(), "x\n[stderr]\ne\n[stdout]\no\n[stderr]\nz\n");
}

/* A sequence across the seam of head and tail is one sequence. */
static void seam_of_head_and_tail_does_not_show(void **)
{
    for (unsigned before = 0; before < 8; before++) {
        output_done(&output);
        add_lines(0, HEAD / 16 - 1);
        add(OUT, &"0123456789abcde"[before]);
        add(OUT, "\033[31mé");
        const char *whole = compose();
        assert_string_equal(strrchr(whole, '\n') - 2, "é\n");
        assert_int_equal(strlen(whole), HEAD - 16 + 15 - before + 3);
    }
}

static void long_line_keeps_its_ends(void **)
{
    char line[2002];
    memset(line, 'x', sizeof line);
    line[0] = '<';
    line[1999] = '>';
    line[2000] = '\0';
    assert_int_equal(strlen(cleaned(line)), 2001);
    line[2000] = '!';
    line[2001] = '\0';
    const char *cut = cleaned(line);
    assert_int_equal(strlen(cut), 2000 + strlen(" … 1 bytes of this line omitted … ") + 1);
    assert_int_equal(cut[0], '<');
    assert_memory_equal(cut + 1000, " … 1 bytes of this line omitted … ", 34);
    assert_string_equal(cut + strlen(cut) - 3, ">!\n");
}

static bool is_utf8(const char *bytes)
{
    while (*bytes) {
        unsigned char c = (unsigned char)*bytes++;
        unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
        if (c >= 0x80 && more == 0) {
            return false;
        }
        for (; more > 0; more--) {
            if (((unsigned char)*bytes++ & 0xc0) != 0x80) {
                return false;
            }
        }
    }
    return true;
}

static void cuts_fall_between_characters(void **)
{
    static const char *const characters[] = {"é", "€", "😀"};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned shift = 0; shift < 4; shift++) {
            output_done(&output);
            add(OUT, &"..."[shift % 3]);
            for (unsigned k = 0; k < 3 + shift; k++) {
                add(OUT, "y");
            }
            for (unsigned k = 0; k < 20000; k++) {
                add(OUT, characters[i]);
            }
            const char *whole = compose();
            assert_non_null(strstr(whole, "bytes omitted"));
            assert_true(is_utf8(whole));
        }
    }
}

static void bytes_that_are_no_text_do_no_harm(void **)
{
    char bytes[30000];
    memset(bytes, 0x80, sizeof bytes);
    output_add(&output, OUT, bytes, sizeof bytes);
    assert_non_null(strstr(compose(), "omitted"));
    output_done(&output);
    memset(bytes, 0xff, sizeof bytes);
    output_add(&output, OUT, bytes, sizeof bytes);
    assert_non_null(strstr(compose(), "omitted"));
}

#define OUTPUT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void expect_raw(const char *expected)
{
    buf_clear(&text, 0);
    assert_int_equal(output_append_raw(&output, &text), 0);
    assert_int_equal(buf_size(&text), strlen(expected));
    assert_memory_equal(buf_bytes(&text), expected, strlen(expected));
}

static void a_cut_is_known_before_text_is_added(void **)
{
    char line[2100];
    memset(line, 'x', sizeof line);
    assert_false(output_overflows(&output, line, 2000));
    assert_true(output_overflows(&output, line, 2001));
    add(OUT, "a\n");
    add(ERR, "b\n");
    output_add(&output, OUT, line, 1999);
    assert_false(output_overflows(&output, "x", 1));
    assert_true(output_overflows(&output, "xx", 2));
    assert_false(output_overflows(&output, "\nxx", 3));
    assert_false(output_overflows(&output, "\rxx", 3));
    output_done(&output);
    add_lines(0, (HEAD + TAIL) / 16 - 1);
    assert_false(output_overflows(&output, "123456789012345", 15));
    assert_true(output_overflows(&output, "1234567890123456", 16));
    add_lines(0, 2);
    assert_false(output_overflows(&output, line, 2100)); /* it has */
}

static void output_is_whole_until_the_cut(void **)
{
    expect_raw("");
    add(OUT, "a\n");
    add(ERR, "b\n");
    add(OUT, "c");
    expect_raw("a\nb\nc");
    output_done(&output);
    add_lines(0, (HEAD + TAIL) / 16);
    buf_clear(&text, 0);
    assert_int_equal(output_append_raw(&output, &text), 0);
    assert_int_equal(buf_size(&text), (HEAD + TAIL) / 16 * 16);
    assert_memory_equal(buf_bytes(&text), "line 0000000000\n", 16);
    assert_memory_equal(buf_bytes(&text) + 16 * 999, "line 0000000999\n", 16);
}

/* The file with all of it could not be made. */
static void behind_the_cut_both_ends_are_left(void **)
{
    add_lines(0, 20000);
    assert_int_equal(output_append_raw(&output, &text), 0);
    assert_int_equal(buf_size(&text), HEAD + TAIL);
    assert_memory_equal(buf_bytes(&text) + HEAD + TAIL - 16, "line 0000019999\n", 16);
}

static void a_cut_names_the_file_with_all_of_it(void **)
{
    add_lines(0, 2000);
    (void)snprintf(output.file, sizeof output.file, "/tmp/all.txt");
    output.file_size = output.total;
    assert_non_null(
        strstr(compose(),
               "; the whole output (32 kB) is in /tmp/all.txt, read_file reads it in ranges …\n"));
    output.file_size = 12000;
    assert_non_null(strstr(compose(), "; the first 12 kB of the output are in /tmp/all.txt, "));
    char line[2101] = "";
    memset(line, 'x', 2100);
    output_done(&output);
    add(OUT, line);
    (void)snprintf(output.file, sizeof output.file, "/tmp/all.txt");
    output.file_size = output.total;
    assert_non_null(strstr(compose(), "x … 100 bytes of this line omitted … x"));
    assert_non_null(strstr(compose(), "x\n… the whole output (2.1 kB) is in /tmp/all.txt, "));
}

static void the_last_line_is_reported_in_progress(void **)
{
    char line[32];
    assert_string_equal(output_last_line(&output, line, sizeof line), "");
    add(OUT, "one\n\n \n");
    assert_string_equal(output_last_line(&output, line, sizeof line), "one");
    add(ERR, "\033[1mtwo\033[0m\n");
    assert_string_equal(output_last_line(&output, line, sizeof line), "two");
    add(OUT, "10%\r20%\r");
    assert_string_equal(output_last_line(&output, line, sizeof line), "20%");
    add_lines(0, 3000);
    assert_string_equal(output_last_line(&output, line, sizeof line), "line 0000002999");
    add(OUT, "ééééééé");
    assert_string_equal(output_last_line(&output, line, 4), "é");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OUTPUT_TEST(nothing_stays_nothing),
        OUTPUT_TEST(last_line_gets_its_line_feed),
        OUTPUT_TEST(text_is_appended),
        OUTPUT_TEST(equal_lines_are_counted),
        OUTPUT_TEST(rounds_of_lines_are_counted),
        OUTPUT_TEST(few_equal_lines_may_be_data),
        OUTPUT_TEST(equal_lines_beside_what_is_cut_are_counted),
        OUTPUT_TEST(output_at_the_limit_is_whole_one_byte_over_is_cut),
        OUTPUT_TEST(head_alone_needs_no_tail),
        OUTPUT_TEST(beginning_and_end_of_a_flood_are_kept_in_order),
        OUTPUT_TEST(pieces_make_no_difference),
        OUTPUT_TEST(streams_are_named_only_when_both_are_used),
        OUTPUT_TEST(stream_is_named_again_behind_the_cut),
        OUTPUT_TEST(nuls_are_removed_and_forge_no_change_of_stream),
        OUTPUT_TEST(progress_is_folded_to_its_last_state),
        OUTPUT_TEST(lines_that_end_with_a_carriage_return_are_kept),
        OUTPUT_TEST(backspace_takes_one_character),
        OUTPUT_TEST(terminal_sequences_go_whole),
        OUTPUT_TEST(sequence_without_end_hides_no_more_than_its_line),
        OUTPUT_TEST(seam_of_head_and_tail_does_not_show),
        OUTPUT_TEST(long_line_keeps_its_ends),
        OUTPUT_TEST(cuts_fall_between_characters),
        OUTPUT_TEST(bytes_that_are_no_text_do_no_harm),
        OUTPUT_TEST(a_cut_is_known_before_text_is_added),
        OUTPUT_TEST(output_is_whole_until_the_cut),
        OUTPUT_TEST(behind_the_cut_both_ends_are_left),
        OUTPUT_TEST(the_last_line_is_reported_in_progress),
        OUTPUT_TEST(a_cut_names_the_file_with_all_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
