#include "sandbox/programs/keeper/patch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

enum { LINES = 24 };

/* Carries out the edits, and checks that they are in order and count right. */
static void check_edits(struct diff_text old, struct diff_text new, const struct diff *diff)
{
    struct buf out = BUF_EMPTY;
    size_t at = 0;
    size_t old_line = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const struct diff_edit *edit = diff_edit(diff, i);
        assert_true(edit->old_at >= at && edit->old_at + edit->old_size <= old.size);
        assert_true(edit->new_at + edit->new_size <= new.size);
        assert_true(edit->old_size + edit->new_size > 0);
        for (; at < edit->old_at; at++) {
            old_line += old.bytes[at] == '\n';
            assert_int_equal(buf_append(&out, old.bytes + at, 1), 0);
        }
        assert_int_equal(old_line, edit->old_line);
        assert_int_equal(buf_size(&out), edit->new_at);
        assert_int_equal(buf_append(&out, new.bytes + edit->new_at, edit->new_size), 0);
        at += edit->old_size;
        old_line += edit->old_lines;
    }
    assert_int_equal(buf_append(&out, old.bytes + at, old.size - at), 0);
    assert_int_equal(buf_size(&out), new.size);
    assert_memory_equal(new.size ? buf_bytes(&out) : "", new.bytes, new.size);
    buf_done(&out);
}

/* Lines of one letter; the last one may be without its end. Returns how many. */
static unsigned make_lines(char out[2 * LINES], struct diff_text *ret)
{
    unsigned count = (unsigned)rand() % LINES;
    unsigned letters = 1 + (unsigned)rand() % 8;
    for (unsigned i = 0; i < count; i++) {
        out[2 * i] = (char)('a' + (unsigned)rand() % letters);
        out[2 * i + 1] = '\n';
    }
    *ret = (struct diff_text){out, 2 * count - (count > 0 && rand() % 4 == 0)};
    return count;
}

static bool same_line(struct diff_text old, unsigned i, struct diff_text new, unsigned j)
{
    bool old_ends = 2 * i + 1 < old.size;
    bool new_ends = 2 * j + 1 < new.size;
    return old.bytes[2 * i] == new.bytes[2 * j] && old_ends == new_ends;
}

/* Length of the longest common subsequence. */
static unsigned longest(struct diff_text old, unsigned old_count, struct diff_text new,
                        unsigned new_count)
{
    unsigned best[LINES + 1][LINES + 1] = {};
    for (unsigned i = 1; i <= old_count; i++) {
        for (unsigned j = 1; j <= new_count; j++) {
            best[i][j] = best[i - 1][j] > best[i][j - 1] ? best[i - 1][j] : best[i][j - 1];
            if (same_line(old, i - 1, new, j - 1) && best[i - 1][j - 1] + 1 > best[i][j]) {
                best[i][j] = best[i - 1][j - 1] + 1;
            }
        }
    }
    return best[old_count][new_count];
}

static void edits_make_the_new_text_and_are_the_fewest(void **)
{
    srand(1);
    for (unsigned i = 0; i < 50000; i++) {
        char old_bytes[2 * LINES];
        char new_bytes[2 * LINES];
        struct diff_text old;
        struct diff_text new;
        struct diff diff;
        uint64_t work = DIFF_WORK;
        unsigned old_count = make_lines(old_bytes, &old);
        unsigned new_count = make_lines(new_bytes, &new);
        unsigned same = longest(old, old_count, new, new_count);
        assert_int_equal(diff_lines(old, new, &work, &diff), 0);
        check_edits(old, new, &diff);
        assert_int_equal(diff.removed, old_count - same);
        assert_int_equal(diff.added, new_count - same);
        diff_done(&diff);
    }
}

static void without_work_the_edits_are_right_all_the_same(void **)
{
    srand(2);
    for (unsigned i = 0; i < 20000; i++) {
        char old_bytes[2 * LINES];
        char new_bytes[2 * LINES];
        struct diff_text old;
        struct diff_text new;
        struct diff diff;
        uint64_t work = (uint64_t)(rand() % 150);
        (void)make_lines(old_bytes, &old);
        (void)make_lines(new_bytes, &new);
        assert_int_equal(diff_lines(old, new, &work, &diff), 0);
        check_edits(old, new, &diff);
        diff_done(&diff);
    }
}

enum { BIG = 1 << 21 };

/* A text of many lines, each written by line(). */
static struct diff_text big_text(unsigned count, int (*line)(char *out, unsigned i),
                                 char **ret_bytes)
{
    char *bytes = malloc((size_t)count * 16);
    size_t used = 0;
    assert_non_null(bytes);
    for (unsigned i = 0; i < count; i++) {
        used += (size_t)line(bytes + used, i);
    }
    *ret_bytes = bytes;
    return (struct diff_text){bytes, used};
}

static int line_equal(char *out, unsigned)
{
    return snprintf(out, 16, "x\n");
}

static int line_number(char *out, unsigned i)
{
    return snprintf(out, 16, "%u\n", i);
}

static int line_other(char *out, unsigned i)
{
    return snprintf(out, 16, "%u.\n", i);
}

static int line_one_of_two(char *out, unsigned)
{
    return snprintf(out, 16, "%d\n", rand() % 2);
}

static int line_backward(char *out, unsigned i)
{
    return snprintf(out, 16, "%u\n", 1000000 - i);
}

static int line_every_third(char *out, unsigned i)
{
    return snprintf(out, 16, i % 3 ? "%u\n" : "%u!\n", i);
}

static int line_empty(char *out, unsigned)
{
    return snprintf(out, 16, "\n");
}

static void long_texts_end_in_the_time_of_a_test(void **)
{
    static const struct {
        unsigned old_count;
        int (*old_line)(char *out, unsigned i);
        unsigned new_count;
        int (*new_line)(char *out, unsigned i);
        int64_t removed; /* -1: any */
    } rows[] = {
        {1000000, line_equal, 999999, line_equal, 1},
        {1000000, line_number, 1000000, line_other, 1000000},
        {100000, line_number, 100000, line_other, 100000},
        {100000, line_number, 100000, line_every_third, 33334},
        {100000, line_number, 100000, line_backward, -1},
        {100000, line_one_of_two, 100000, line_one_of_two, -1},
        {1000, line_one_of_two, 200000, line_one_of_two, -1},
        {100000, line_empty, 100000, line_one_of_two, 100000},
        {2000000, line_empty, 10, line_equal, 2000000},
    };
    srand(3);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *old_bytes = NULL;
        char *new_bytes = NULL;
        struct diff_text old = big_text(rows[i].old_count, rows[i].old_line, &old_bytes);
        struct diff_text new = big_text(rows[i].new_count, rows[i].new_line, &new_bytes);
        struct diff diff;
        uint64_t work = DIFF_WORK;
        assert_int_equal(diff_lines(old, new, &work, &diff), 0);
        check_edits(old, new, &diff);
        if (rows[i].removed >= 0) {
            assert_int_equal(diff.removed, rows[i].removed);
        }
        diff_done(&diff);
        free(old_bytes);
        free(new_bytes);
    }
}

/* One line of bytes. */
static void a_long_line_is_one_line(void **)
{
    char *bytes = malloc(BIG);
    assert_non_null(bytes);
    memset(bytes, 'x', BIG);
    struct diff_text old = {bytes, BIG};
    struct diff_text new = {bytes, BIG - 1};
    struct diff diff;
    uint64_t work = DIFF_WORK;
    assert_int_equal(diff_lines(old, new, &work, &diff), 0);
    check_edits(old, new, &diff);
    assert_true(diff.count == 1 && diff.added == 1 && diff.removed == 1);
    diff_done(&diff);
    assert_int_equal(diff_lines(old, old, &work, &diff), 0);
    assert_true(diff.count == 0);
    diff_done(&diff);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_make_the_new_text_and_are_the_fewest),
        cmocka_unit_test(without_work_the_edits_are_right_all_the_same),
        cmocka_unit_test(long_texts_end_in_the_time_of_a_test),
        cmocka_unit_test(a_long_line_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
