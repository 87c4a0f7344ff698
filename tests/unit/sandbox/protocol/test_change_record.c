#include "sandbox/protocol/apply_journal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static void add(struct buf *records, const char *path)
{
    const struct change_record record = {.sign = '+', .added = 3};
    assert_int_equal(change_record_add(records, &record, path, NULL), 0);
}

static void records_come_back_in_their_order(void **)
{
    static const char *const paths[] = {"a", "1234567", "12345678", "dir/\xff\n"};
    struct buf records = BUF_EMPTY;
    for (unsigned i = 0; i < 4; i++) {
        add(&records, paths[i]);
        assert_true(change_records_are_valid(buf_bytes(&records), buf_size(&records)));
    }
    const struct change_record *at = NULL;
    for (unsigned i = 0; i < 4; i++) {
        at = change_record_next(buf_bytes(&records), buf_size(&records), at);
        assert_string_equal(at->path, paths[i]);
        assert_int_equal(at->added, 3);
    }
    assert_null(change_record_next(buf_bytes(&records), buf_size(&records), at));
    assert_true(change_records_are_valid(NULL, 0));
    assert_null(change_record_next(NULL, 0, NULL));
    buf_done(&records);
}

/* Reads what is said to be valid in memory of exactly that size, for a sanitizer. */
static bool check(const char *bytes, size_t size)
{
    char *exact = malloc(size ? size : 1);
    size_t paths = 0;
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    bool valid = change_records_are_valid(exact, size);
    for (const struct change_record *at = NULL;
         valid && (at = change_record_next(exact, size, at));) {
        paths += strlen(at->path);
        assert_true(at->path + strlen(at->path) < exact + size);
    }
    assert_true(!valid || size == 0 || paths > 0);
    free(exact);
    return valid;
}

static void damaged_records_are_refused(void **)
{
    struct buf records = BUF_EMPTY;
    add(&records, "a");
    add(&records, "b/c");
    size_t size = buf_size(&records);
    for (size_t i = 1; i < size; i++) {
        assert_true(check(buf_bytes(&records), i) == (i == size / 2));
    }
    struct change_record *head = (void *)records.data;
    static const uint32_t sizes[] = {0, 1, 8, sizeof *head, 1 << 30, UINT32_MAX};
    uint32_t right = head->size;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        head->size = sizes[i];
        assert_false(check(records.data, size));
    }
    head->size = right;
    head->sign = 'x';
    assert_false(check(records.data, size));
    head->sign = '\0';
    assert_false(check(records.data, size));
    head->sign = '-';
    assert_true(check(records.data, size));
    memset(head->path, 'x', right - sizeof *head);
    assert_false(check(records.data, size));
    memset(head->path, '\0', right - sizeof *head);
    assert_false(check(records.data, size));
    buf_done(&records);
}

static void random_damage_reads_nothing_outside(void **)
{
    srand(5);
    for (unsigned i = 0; i < 20000; i++) {
        struct buf records = BUF_EMPTY;
        add(&records, "a");
        add(&records, "some/longer/path");
        add(&records, "c");
        for (unsigned j = 0; j < 3; j++) {
            records.data[(size_t)rand() % buf_size(&records)] = (char)rand();
        }
        (void)check(buf_bytes(&records), buf_size(&records));
        buf_done(&records);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_in_their_order),
        cmocka_unit_test(damaged_records_are_refused),
        cmocka_unit_test(random_damage_reads_nothing_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
