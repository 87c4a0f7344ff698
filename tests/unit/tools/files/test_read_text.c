#include "tools/files/read_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct loop *loop;
static int file;
static struct buf answer;
static bool answered;
static bool refused;

static int set_up(void **)
{
    temp_make(&temp);
    file = openat(temp.fd, "text", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    answer = BUF_EMPTY;
    return file < 0 ? -1 : loop_new(&loop);
}

static int tear_down(void **)
{
    loop_free(loop);
    (void)close(file);
    buf_done(&answer);
    temp_remove(&temp);
    return 0;
}

static void put(off_t at, const char *text)
{
    assert_int_equal(pwrite(file, text, strlen(text), at), (ssize_t)strlen(text));
}

static void number_lines(unsigned count)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(buf_appendf(&text, "line %u\n", i), 0);
    }
    assert_int_equal(pwrite(file, buf_bytes(&text), buf_size(&text), 0), (ssize_t)buf_size(&text));
}

static void take_result(void *, int error, const struct buf *text, bool is_error)
{
    assert_int_equal(error, 0);
    assert_int_equal(buf_append(&answer, buf_bytes(text), buf_size(text)), 0);
    assert_int_equal(buf_append(&answer, "", 1), 0);
    refused = is_error;
    answered = true;
}

static const char *read_range(const struct read_range *range)
{
    struct read_text reading;
    struct read_range named = *range;
    named.path = "t.txt";
    answer.end = answer.start;
    answered = false;
    read_text_start(&reading, loop, file, &named, take_result, NULL);
    for (unsigned i = 0; i < 10000 && !answered; i++) {
        assert_int_equal(loop_step(loop, 0), 0);
    }
    assert_true(answered);
    read_text_stop(&reading);
    return buf_bytes(&answer);
}

static const char *lines(long long start, long long end)
{
    return read_range(&(struct read_range){.start_line = start, .end_line = end});
}

static const char *bytes(uint64_t offset, uint64_t length)
{
    return read_range(&(struct read_range){.has_bytes = true, .offset = offset, .length = length});
}

static void whole_file_comes_without_a_note(void **)
{
    put(0, "a\nb");
    assert_string_equal(lines(0, 0), "a\nb");
    assert_string_equal(lines(1, 2), "a\nb");
    assert_string_equal(lines(-9, -1), "a\nb");
}

static void part_says_which_lines_and_how_to_continue(void **)
{
    put(0, "a\nb\nc\n");
    assert_string_equal(lines(0, 1), "a\n[lines 1-1 of 3, 6 B; continue with start_line=2]\n");
    assert_string_equal(lines(2, 2), "b\n[lines 2-2 of 3, 6 B; continue with start_line=3]\n");
    assert_string_equal(lines(2, 0), "b\nc\n[lines 2-3 of 3, 6 B]\n");
    assert_string_equal(lines(3, 99), "c\n[lines 3-3 of 3, 6 B]\n");
}

static void numbers_count_from_the_end(void **)
{
    put(0, "a\nb\nc");
    assert_string_equal(lines(-1, 0), "c\n[lines 3-3 of 3, 5 B]\n");
    assert_string_equal(lines(-2, -2), "b\n[lines 2-2 of 3, 5 B; continue with start_line=3]\n");
    assert_string_equal(lines(1, -3), "a\n[lines 1-1 of 3, 5 B; continue with start_line=2]\n");
    assert_string_equal(lines(-2, 2), "b\n[lines 2-2 of 3, 5 B; continue with start_line=3]\n");
}

static void missing_lines_are_refused(void **)
{
    put(0, "a\nb\n");
    assert_string_equal(lines(3, 0), "t.txt has 2 lines; there is no line 3.");
    assert_true(refused);
    assert_string_equal(lines(2, 1), "t.txt has no lines from 2 to 1.");
    assert_string_equal(lines(1, -3), "t.txt has no lines from 1 to -3.");
    assert_string_equal(lines(-1, -2), "t.txt has no lines from 2 to -2.");
}

static void long_file_continues_without_a_gap(void **)
{
    number_lines(5000);
    unsigned next = 1;
    while (next) {
        const char *text = lines(next, 0);
        char first[24];
        (void)snprintf(first, sizeof first, "line %u\n", next);
        assert_ptr_equal(strstr(text, first), text);
        assert_true(strlen(text) <= LIMIT_TEXT_BYTES + 100);
        const char *more = strstr(text, "start_line=");
        unsigned from = next;
        next = 0;
        for (more = more ? more + 11 : ""; *more >= '0' && *more <= '9'; more++) {
            next = next * 10 + (unsigned)(*more - '0');
        }
        assert_true(next == 0 || next > from);
    }
    assert_non_null(strstr(buf_bytes(&answer), "line 5000\n[lines "));
    assert_non_null(strstr(buf_bytes(&answer), "-5000 of 5000, "));
}

static void long_line_continues_by_bytes(void **)
{
    assert_int_equal(ftruncate(file, 0), 0);
    for (unsigned i = 0; i < 200; i++) {
        put(i * 100L,
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    }
    assert_non_null(strstr(lines(1, 0),
                           "x\n[lines 1-1 of 1, 20 kB; the line is longer: continue with "
                           "offset=16000]\n"));
    assert_non_null(strstr(bytes(16000, UINT64_MAX), "x\n[bytes 16000-19999 of 20000]\n"));
    assert_string_equal(bytes(19998, 1),
                        "x\n[bytes 19998-19998 of 20000; continue with "
                        "offset=19999]\n");
    assert_string_equal(bytes(30000, 5),
                        "t.txt has 20000 bytes; there is no byte at offset 30000.");
    assert_true(refused);
    assert_string_equal(bytes(20000, 1),
                        "t.txt has 20000 bytes; there is no byte at offset 20000.");
    assert_true(refused);
    assert_string_equal(bytes(INT64_MAX, UINT64_MAX),
                        "t.txt has 20000 bytes; there is no byte at offset 9223372036854775807.");
}

static void other_encodings_are_mentioned(void **)
{
    put(0,
        "gr\xfc\xdf"
        "e\n");
    assert_non_null(strstr(lines(0, 0), "\n[lines 1-1 of 1, 6 B; not UTF-8, perhaps Latin-1: "));
}

/* A file with a hole: lines are not counted, and both ends are near. */
static void ends_of_a_huge_file_are_found(void **)
{
    off_t end = 1LL << 35;
    put(0, "first\nsecond\n");
    put(end, "\nlast but one\nlast\n");
    assert_string_equal(lines(-1, 0), "last\n[lines -1 to -1, 34 GB]\n");
    assert_string_equal(lines(-2, -2),
                        "last but one\n[lines -2 to -2, 34 GB; continue with start_line=-1]\n");
    assert_string_equal(lines(0, 1), "first\n[lines 1-1, 34 GB; continue with start_line=2]\n");
    assert_string_equal(lines(2, 2), "second\n[lines 2-2, 34 GB; continue with start_line=3]\n");
    assert_non_null(strstr(lines(-1, 7), "is too large to count its lines"));
    assert_non_null(strstr(bytes((uint64_t)end + 14, 5), "last\n"));
}

#define READ_TEXT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READ_TEXT_TEST(whole_file_comes_without_a_note),
        READ_TEXT_TEST(part_says_which_lines_and_how_to_continue),
        READ_TEXT_TEST(numbers_count_from_the_end),
        READ_TEXT_TEST(missing_lines_are_refused),
        READ_TEXT_TEST(long_file_continues_without_a_gap),
        READ_TEXT_TEST(long_line_continues_by_bytes),
        READ_TEXT_TEST(other_encodings_are_mentioned),
        READ_TEXT_TEST(ends_of_a_huge_file_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
