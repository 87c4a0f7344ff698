#include "tools/files/decode.h"

#include <string.h>

#include "base/buf.h"
#include "tests/unit/unit.h"

static void expect(const char *bytes, size_t size, const char *utf8)
{
    struct buf out = BUF_EMPTY;
    assert_int_equal(utf16_decode(bytes, size, &out), 0);
    assert_int_equal(buf_size(&out), strlen(utf8));
    assert_memory_equal(buf_bytes(&out), utf8, strlen(utf8));
    buf_done(&out);
}

#define EXPECT(literal, utf8) expect(literal, sizeof(literal) - 1, utf8)

static void both_orders_are_read(void **)
{
    EXPECT(
        "\xff\xfe"
        "a\0\xe9\0\xac\x20",
        "a\xc3\xa9\xe2\x82\xac");
    EXPECT("\xfe\xff\0a\0\xe9\x20\xac", "a\xc3\xa9\xe2\x82\xac");
}

static void pairs_are_one_character(void **)
{
    EXPECT("\xff\xfe\x3d\xd8\x00\xde", "\xf0\x9f\x98\x80");
}

static void broken_pairs_are_replaced(void **)
{
    EXPECT(
        "\xff\xfe\x3d\xd8"
        "a\0",
        "\xef\xbf\xbd"
        "a");
    EXPECT("\xff\xfe\x00\xde", "\xef\xbf\xbd");
    EXPECT("\xff\xfe\x3d\xd8", "\xef\xbf\xbd");
    EXPECT(
        "\xff\xfe"
        "a\0b",
        "a\xef\xbf\xbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_orders_are_read),
        cmocka_unit_test(pairs_are_one_character),
        cmocka_unit_test(broken_pairs_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
