#include "base/buf.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static void bytes_come_back_in_order(void **)
{
    struct buf buf = BUF_EMPTY;
    assert_int_equal(buf_append_text(&buf, "abc"), 0);
    assert_int_equal(buf_appendf(&buf, "%d-%s", 7, "x"), 0);
    assert_int_equal(buf_size(&buf), 6);
    buf_consume(&buf, 2);
    assert_memory_equal(buf_bytes(&buf), "c7-x", 4);
    buf_done(&buf);
    buf_done(&buf);
}

static void space_for_nothing_is_not_null(void **)
{
    struct buf buf = BUF_EMPTY;
    char *space = NULL;
    assert_string_equal(buf_bytes(&buf), "");
    assert_int_equal(buf_reserve(&buf, 0, &space), 0);
    assert_non_null(space);
    buf_done(&buf);
}

static void consumed_front_is_used_again(void **)
{
    struct buf buf = BUF_EMPTY;
    char block[200] = {};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_append(&buf, block, sizeof block), 0);
        buf_consume(&buf, sizeof block - (i == 0));
    }
    assert_in_range(buf.capacity, 256, 1024);
    assert_int_equal(buf_size(&buf), 1);
    buf_done(&buf);
}

static void impossible_size_is_refused_and_content_stays(void **)
{
    struct buf buf = BUF_EMPTY;
    char *space = NULL;
    assert_int_equal(buf_append_text(&buf, "abc"), 0);
    assert_int_equal(buf_reserve(&buf, SIZE_MAX, &space), -ENOMEM);
    assert_memory_equal(buf_bytes(&buf), "abc", 3);
    buf_done(&buf);
}

static void after_a_failure_nothing_is_appended(void **)
{
    struct buf buf = BUF_EMPTY;
    struct buf whole = BUF_EMPTY;
    static const char byte = 0;
    assert_int_equal(buf_append_text(&buf, "abc"), 0);
    assert_int_equal(buf_append(&buf, &byte, SIZE_MAX), -ENOMEM);
    assert_int_equal(buf_append_text(&buf, "d"), -ENOMEM);
    assert_int_equal(buf_appendf(&buf, "%d", 1), -ENOMEM);
    assert_int_equal(buf_error(&buf), -ENOMEM);
    assert_int_equal(buf_size(&buf), 3);
    buf_append_buf(&whole, &buf);
    assert_int_equal(buf_error(&whole), -ENOMEM);
    buf_cut(&buf, 2);
    assert_int_equal(buf_error(&buf), 0);
    assert_int_equal(buf_append_text(&buf, "d"), 0);
    assert_memory_equal(buf_bytes(&buf), "abd", 3);
    buf_clear(&whole, 0);
    assert_int_equal(buf_error(&whole), 0);
    buf_done(&buf);
    buf_done(&whole);
}

static void clear_gives_a_large_block_back(void **)
{
    struct buf buf = BUF_EMPTY;
    char *space = NULL;
    assert_int_equal(buf_reserve(&buf, 5000, &space), 0);
    buf_commit(&buf, 5000);
    buf_clear(&buf, 10000);
    assert_int_equal(buf_size(&buf), 0);
    assert_non_null(buf.data);
    buf_clear(&buf, 1000);
    assert_null(buf.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back_in_order),
        cmocka_unit_test(consumed_front_is_used_again),
        cmocka_unit_test(impossible_size_is_refused_and_content_stays),
        cmocka_unit_test(space_for_nothing_is_not_null),
        cmocka_unit_test(clear_gives_a_large_block_back),
        cmocka_unit_test(after_a_failure_nothing_is_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
