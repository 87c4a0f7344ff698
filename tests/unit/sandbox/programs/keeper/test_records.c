#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "sandbox/programs/keeper/keeper.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { NOTED = 5 };

static void forget(struct keeper *keeper)
{
    keeper->store_fd = -1;
    base_loaded(keeper); /* drops records without a version */
    assert_int_equal(keeper->records.count, 0);
    free(keeper->records.buckets);
}

/* --- order --- */

static void a_directory_stands_right_before_what_is_in_it(void **)
{
    static const char *const sorted[] = {"a",      "a/b",    "a/b/c",  "a/b.c", "a/c",
                                         "a\x01z", "a b",    "a.b",    "a0",    "ab",
                                         "b",      "b/\x01", "b/\xff", "b!",    "\xc3\xa9"};
    enum { COUNT = sizeof sorted / sizeof *sorted };
    struct keeper keeper = {.store_fd = -1};
    for (unsigned i = 0; i < COUNT; i++) {
        for (unsigned k = 0; k < COUNT; k++) {
            int order = apply_path_compare(sorted[i], sorted[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
        assert_non_null(record_get(&keeper, sorted[i * 7 % COUNT]));
    }
    size_t count = 0;
    struct record **list = records_sorted(&keeper, &count);
    assert_int_equal(count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_string_equal(list[i]->path, sorted[i]);
        assert_ptr_equal(record_find(&keeper, sorted[i]), list[i]);
    }
    free(list);
    forget(&keeper);
}

static void there_are_no_more_records_than_the_bound(void **)
{
    char name[16];
    struct keeper keeper = {.store_fd = -1};
    for (unsigned i = 0; i < KEEPER_RECORDS; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        assert_non_null(record_get(&keeper, name));
    }
    assert_null(record_get(&keeper, "one more"));
    assert_non_null(record_get(&keeper, "0"));
    forget(&keeper);
}

/* --- the store's file --- */

static size_t write_base(struct keeper *keeper)
{
    struct stat st;
    for (unsigned i = 0; i < NOTED; i++) {
        char path[] = "d/0";
        path[2] = (char)('0' + i);
        const struct record record = {.path = path,
                                      .cow.base = {.inode = 100 + i, .mode = S_IFREG}};
        base_note(keeper, &record);
    }
    assert_int_equal(fstatat(keeper->store_fd, "base", &st, 0), 0);
    return (size_t)st.st_size;
}

static void a_base_file_that_was_cut_short_is_read_up_to_there(void **)
{
    struct temp temp;
    temp_make(&temp);
    struct keeper writer = {.store_fd = temp.fd};
    size_t size = write_base(&writer);
    size_t entry = size / NOTED;
    int fd = openat(temp.fd, "base", O_RDWR | O_CLOEXEC);
    for (size_t left = size + 1; left-- > 0;) {
        struct keeper keeper = {.store_fd = temp.fd};
        assert_int_equal(ftruncate(fd, (off_t)left), 0);
        base_load(&keeper);
        assert_int_equal(keeper.records.count, left / entry);
        for (unsigned i = 0; i < left / entry; i++) {
            char path[] = "d/0";
            path[2] = (char)('0' + i);
            const struct record *record = record_find(&keeper, path);
            assert_true(record && record->cow.based && record->cow.base.inode == 100 + i);
        }
        forget(&keeper);
    }
    (void)close(fd);
    temp_remove(&temp);
}

static void a_base_file_of_anything_does_no_harm(void **)
{
    struct temp temp;
    temp_make(&temp);
    srand(1);
    for (unsigned round = 0; round < 500; round++) {
        struct keeper keeper = {.store_fd = temp.fd};
        size_t size = write_base(&keeper);
        int fd = openat(temp.fd, "base", O_RDWR | O_CLOEXEC);
        for (unsigned i = 0; i < 8; i++) {
            char byte = (char)(rand() % 3 ? rand() : 0);
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)((size_t)rand() % size)), 1);
        }
        base_load(&keeper);
        assert_true(keeper.records.count <= size / (sizeof(struct apply_facts) + 1));
        (void)close(fd);
        forget(&keeper);
        assert_int_equal(unlinkat(temp.fd, "base", 0), 0);
    }
    temp_remove(&temp);
}

/* --- the status line's rows --- */

static void add_row(struct rows *rows, const char *path, enum kind from, enum kind to)
{
    char name[64];
    struct version before = {.kind = from};
    struct version after = {.kind = to, .bytes = 3};
    (void)snprintf(name, sizeof name, "%s", path);
    const struct record record = {.path = name, .now = &after, .links = 1};
    rows_add(rows, &record, &before, false);
}

/* The rows with a bar after each, and how many were left out. */
static void assert_rows(struct rows *rows, const char *expected, uint32_t more)
{
    struct buf text = BUF_EMPTY;
    struct buf line = BUF_EMPTY;
    assert_int_equal(rows_tell(rows, &text), more);
    const char *bytes = buf_bytes(&text);
    for (size_t at = 0, item = 0; at < buf_size(&text); at += strlen(bytes + at) + 1, item++) {
        assert_true(item % 3 != 0 || bytes[at] == WIRE_KEPT_ROW);
        (void)buf_appendf(&line, "%s%s", bytes + at + (item % 3 == 0), item % 3 == 2 ? "|" : " ");
    }
    (void)buf_append(&line, "", 1);
    assert_string_equal(buf_bytes(&line), expected);
    buf_done(&text);
    buf_done(&line);
}

static void rows_are_in_order_and_hide_what_tools_keep_for_themselves(void **)
{
    struct rows rows = {};
    add_row(&rows, "z", KIND_FILE, KIND_NONE);
    add_row(&rows, "link", KIND_NONE, KIND_LINK);
    add_row(&rows, "a", KIND_FILE, KIND_FILE);
    add_row(&rows, "d", KIND_NONE, KIND_DIRECTORY);
    add_row(&rows, "d/new", KIND_NONE, KIND_FILE);
    add_row(&rows, ".git", KIND_NONE, KIND_DIRECTORY);
    add_row(&rows, ".git/index", KIND_NONE, KIND_FILE);
    add_row(&rows, "d/__pycache__/x.pyc", KIND_NONE, KIND_FILE);
    add_row(&rows, "node_modules/x", KIND_NONE, KIND_FILE);
    add_row(&rows, ".env", KIND_NONE, KIND_FILE);
    assert_rows(&rows, "+.env 3 |+.git/ 3 directory|~a 3 |+d/new 3 |+link 3 symlink|-z 3 |", 0);
}

static void many_rows_are_summed_up_or_counted(void **)
{
    char name[32];
    struct rows rows = {};
    for (unsigned i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof name, "out/%u", i);
        add_row(&rows, name, KIND_NONE, KIND_FILE);
    }
    add_row(&rows, "out/edited", KIND_FILE, KIND_FILE);
    assert_rows(&rows, "+out/ 27 9 files|~out/edited 3 |", 0);
    rows = (struct rows){};
    for (unsigned i = 0; i < KEEPER_ROWS + 3; i++) {
        (void)snprintf(name, sizeof name, "%02u", i);
        add_row(&rows, name, KIND_FILE, KIND_NONE);
    }
    struct buf text = BUF_EMPTY;
    assert_int_equal(rows_tell(&rows, &text), 3);
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_stands_right_before_what_is_in_it),
        cmocka_unit_test(there_are_no_more_records_than_the_bound),
        cmocka_unit_test(a_base_file_that_was_cut_short_is_read_up_to_there),
        cmocka_unit_test(a_base_file_of_anything_does_no_harm),
        cmocka_unit_test(rows_are_in_order_and_hide_what_tools_keep_for_themselves),
        cmocka_unit_test(many_rows_are_summed_up_or_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
