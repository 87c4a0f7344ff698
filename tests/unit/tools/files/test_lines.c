#include "tools/files/read_text.h"

#include <string.h>

#include "tests/unit/unit.h"

static void last_line_counts_without_its_end(void **)
{
    assert_int_equal(lines_count("", 0), 0);
    assert_int_equal(lines_count("a", 1), 1);
    assert_int_equal(lines_count("a\n", 2), 1);
    assert_int_equal(lines_count("a\nb", 3), 2);
    assert_int_equal(lines_ends("a\nb", 3), 1);
    assert_int_equal(lines_count("\n\n", 2), 2);
}

static size_t forward(const char *text, size_t skip, size_t *ret_left)
{
    size_t at = lines_forward(text, strlen(text), &skip);
    *ret_left = skip;
    return at;
}

static void forward_stops_behind_the_line_end(void **)
{
    size_t left = 0;
    assert_int_equal(forward("a\nbc\nd", 0, &left), 0);
    assert_int_equal(forward("a\nbc\nd", 1, &left), 2);
    assert_int_equal(forward("a\nbc\nd", 2, &left), 5);
    assert_int_equal(left, 0);
    assert_int_equal(forward("a\nbc\nd", 3, &left), 6);
    assert_int_equal(left, 1);
    assert_int_equal(forward("a\n", 1, &left), 2);
    assert_int_equal(left, 0);
}

static size_t backward(const char *text, size_t skip, size_t *ret_left)
{
    size_t at = lines_backward(text, strlen(text), &skip);
    *ret_left = skip;
    return at;
}

static void backward_stops_behind_the_line_end(void **)
{
    size_t left = 0;
    assert_int_equal(backward("a\nbc\nd", 1, &left), 5);
    assert_int_equal(backward("a\nbc\nd", 2, &left), 2);
    assert_int_equal(left, 0);
    assert_int_equal(backward("a\nbc\nd", 3, &left), 0);
    assert_int_equal(left, 1);
    assert_int_equal(backward("\n", 1, &left), 1);
    assert_int_equal(left, 0);
}

static void cut_prefers_the_end_of_a_line(void **)
{
    assert_int_equal(lines_cut("abc", 3, 8), 3);
    assert_int_equal(lines_cut("abcd\nefgh", 9, 8), 5);
    assert_int_equal(lines_cut("a\nbcdefgh", 9, 8), 8); /* the line end is too far from the limit */
    assert_int_equal(lines_cut("abc\n\nfgh\n", 9, 8), 5);
}

static void cut_leaves_characters_whole(void **)
{
    assert_int_equal(lines_cut("abcdef\xc3\xa9h", 9, 7), 6);
    assert_int_equal(lines_cut("abcd\xf0\x9f\x98\x80h", 9, 7), 4);
    assert_int_equal(lines_cut("abcde\xf0\x9f\x98\x80", 9, 9), 9);
    assert_int_equal(lines_cut("\x80\x80\x80\x80\x80\x80\x80\x80\x80", 9, 8), 8); /* none whole */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_line_counts_without_its_end),
        cmocka_unit_test(forward_stops_behind_the_line_end),
        cmocka_unit_test(backward_stops_behind_the_line_end),
        cmocka_unit_test(cut_prefers_the_end_of_a_line),
        cmocka_unit_test(cut_leaves_characters_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
