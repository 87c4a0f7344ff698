#include "sandbox/protocol/apply_journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static const struct apply_facts file = {.inode = 7, .bytes = 3, .ctime_ns = 5, .mode = 0100644};
static const struct apply_facts none;

static struct buf sample(void)
{
    struct buf journal = BUF_EMPTY;
    assert_int_equal(apply_journal_begin(&journal, 12, 34), 0);
    assert_int_equal(apply_journal_add(&journal, "a", &file, &none), 0);
    assert_int_equal(apply_journal_add(&journal, "a/b\nc", &none, &file), 0);
    assert_int_equal(apply_journal_add(&journal, "a.b", &none, &file), 0);
    return journal;
}

static void items_come_back_in_order(void **)
{
    struct buf journal = sample();
    const struct apply_journal *head = (const void *)buf_bytes(&journal);
    const char *const paths[] = {"a", "a/b\nc", "a.b"};
    const struct apply_item *item = NULL;
    unsigned count = 0;
    assert_true(apply_journal_is_valid(head, buf_size(&journal)));
    while ((item = apply_journal_next(head, item))) {
        assert_string_equal(item->path, paths[count++]);
        assert_int_equal(item->status, APPLY_TO_DO);
    }
    assert_int_equal(count, 3);
    assert_int_equal(head->owner_gid, 34);
    buf_done(&journal);
}

static void what_is_in_a_directory_comes_right_after_it(void **)
{
    assert_true(apply_path_compare("a", "a/b") < 0);
    assert_true(apply_path_compare("a/b", "a.b") < 0);
    assert_true(apply_path_compare("a\n", "a/z") > 0);
    assert_true(apply_path_compare("a\xff", "b") < 0);
    assert_int_equal(apply_path_compare("a/b", "a/b"), 0);
    assert_true(apply_path_is_below("a/b", "a"));
    assert_false(apply_path_is_below("ab", "a"));
    assert_false(apply_path_is_below("a", "a"));
}

static void paths_that_lead_elsewhere_are_refused(void **)
{
    static char longest[APPLY_PATH_BYTES + 1];
    const char *const bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b"};
    struct buf journal = BUF_EMPTY;
    assert_int_equal(apply_journal_begin(&journal, 0, 0), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(apply_journal_add(&journal, bad[i], &file, &file), -EINVAL);
    }
    assert_int_equal(apply_journal_add(&journal, "...", &file, &file), 0);
    memset(longest, 'x', sizeof longest - 1);
    assert_int_equal(apply_journal_add(&journal, longest, &file, &file), -EINVAL);
    assert_int_equal(apply_journal_add(&journal, longest + 1, &file, &file), 0);
    assert_true(apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal)));
    buf_done(&journal);
}

static void a_wrong_order_or_a_name_twice_is_invalid(void **)
{
    struct buf journal = sample();
    assert_int_equal(apply_journal_add(&journal, "a.b", &file, &file), 0);
    assert_false(apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal)));
    buf_done(&journal);
    journal = sample();
    assert_int_equal(apply_journal_add(&journal, "a/z", &file, &file), 0);
    assert_false(apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal)));
    buf_done(&journal);
}

/* Reads all of a journal, so that a checker of addresses sees what lies outside. */
static size_t read_all(const struct apply_journal *journal)
{
    const struct apply_item *item = NULL;
    size_t sum = strlen(journal->temporary);
    while ((item = apply_journal_next(journal, item))) {
        assert_true(item->status < APPLY_STATUS_COUNT);
        assert_null(strstr(item->path, "//"));
        sum += strlen(item->path);
    }
    return sum;
}

static void damage_is_found_or_harmless(void **)
{
    struct buf journal = sample();
    size_t size = buf_size(&journal);
    unsigned refused = 0;
    for (size_t cut = 0; cut < size; cut++) {
        void *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, buf_bytes(&journal), cut);
        assert_false(apply_journal_is_valid(copy, cut));
        free(copy);
    }
    char *copy = malloc(size);
    assert_non_null(copy);
    for (size_t at = 0; at < size; at++) {
        for (unsigned change = 1; change < 256; change = change * 2 + 1) {
            memcpy(copy, buf_bytes(&journal), size);
            copy[at] = (char)(copy[at] ^ (char)change);
            bool valid = apply_journal_is_valid(copy, size);
            refused += !valid;
            assert_true(!valid || read_all((const void *)copy) > 0);
        }
    }
    assert_true(refused > 300);
    free(copy);
    buf_done(&journal);
}

static void directories_are_compared_without_what_is_in_them(void **)
{
    struct apply_facts directory = {.inode = 1, .bytes = 2, .ctime_ns = 3, .mode = 040755};
    struct apply_facts other = {.inode = 1, .bytes = 4, .ctime_ns = 5, .mode = 040755};
    struct apply_facts changed = file;
    assert_true(apply_facts_equal(&directory, &other));
    other.inode = 2;
    assert_false(apply_facts_equal(&directory, &other));
    assert_true(apply_facts_alike(&directory, &other));
    other.inode = 1;
    other.mode = 040700;
    assert_false(apply_facts_equal(&directory, &other));
    assert_false(apply_facts_alike(&directory, &other));
    changed.ctime_ns++;
    assert_false(apply_facts_equal(&file, &changed));
    assert_false(apply_facts_alike(&file, &changed));
    assert_true(apply_facts_equal_moved(&file, &changed));
    changed.mtime_ns++;
    assert_false(apply_facts_equal_moved(&file, &changed));
    assert_false(apply_facts_equal(&none, &file));
    assert_true(apply_facts_equal(&none, &(struct apply_facts){.inode = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_back_in_order),
        cmocka_unit_test(what_is_in_a_directory_comes_right_after_it),
        cmocka_unit_test(paths_that_lead_elsewhere_are_refused),
        cmocka_unit_test(a_wrong_order_or_a_name_twice_is_invalid),
        cmocka_unit_test(damage_is_found_or_harmless),
        cmocka_unit_test(directories_are_compared_without_what_is_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
