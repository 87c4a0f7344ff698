#include "base/parse.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static void numbers_are_whole_texts(void **)
{
    uint64_t value = 0;
    assert_int_equal(parse_u64("18446744073709551615", &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(parse_u64("18446744073709551616", &value), -ERANGE);
    assert_int_equal(parse_u64("", &value), -EINVAL);
    assert_int_equal(parse_u64("-1", &value), -EINVAL);
    assert_int_equal(parse_u64(" 1", &value), -EINVAL);
    assert_int_equal(parse_u64("1x", &value), -EINVAL);
    assert_true(value == UINT64_MAX);
}

static void units_are_powers_of_1024(void **)
{
    uint64_t value = 0;
    assert_int_equal(parse_size("2g", &value), 0);
    assert_true(value == UINT64_C(2) << 30);
    assert_int_equal(parse_size("3KiB", &value), 0);
    assert_int_equal(value, 3072);
    assert_int_equal(parse_size("16777216T", &value), -ERANGE);
    assert_int_equal(parse_size("1Q", &value), -EINVAL);
    assert_int_equal(parse_size("1KX", &value), -EINVAL);
}

static void percent_encoding_is_decoded_whole_or_not_at_all(void **)
{
    static const char *const wrong[] = {"%",   "%4",    "%4g",  "% 41",
                                        "%-1", "%0x41", "a%00", "12345678"};
    char out[8];
    assert_int_equal(parse_percent("a%2Fb%c3", 8, out, sizeof out), 4);
    assert_string_equal(out, "a/b\xc3");
    assert_int_equal(parse_percent("%41b", 3, out, sizeof out), 1);
    assert_string_equal(out, "A");
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse_percent(wrong[i], strlen(wrong[i]), out, sizeof out), -1);
    }
}

static void seconds_have_three_decimals(void **)
{
    uint64_t value = 0;
    assert_int_equal(parse_seconds("1.5", &value), 0);
    assert_int_equal(value, 1500);
    assert_int_equal(parse_seconds("0.001s", &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(parse_seconds("1.", &value), -EINVAL);
    assert_int_equal(parse_seconds("1.2345", &value), -EINVAL);
    assert_int_equal(parse_milli("2", &value), 0);
    assert_int_equal(value, 2000);
}

static void a_table_of_mounts_is_read_line_by_line(void **)
{
    char text[] =
        "22 20 8:2 /a\\040b /mnt/c\\134d rw shared:1 - ext4 /dev/sdb rw,memory\n"
        "garbage\n"
        "23 20 0:7 / /x rw - tmpfs  size=1\n" /* without a source */
        "24 20 0:8 / /y rw";
    static const struct parsed_mount expected[] = {
        {"8:2", "/a b", "/mnt/c\\d", "ext4", "rw,memory"},
        {"0:7", "/", "/x", "tmpfs", "size=1"},
        {"0:8", "/", "/y", "", ""},
    };
    struct parsed_mount mount;
    char *at = text;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(parse_mount(&at, &mount));
        assert_string_equal(mount.device, expected[i].device);
        assert_string_equal(mount.root, expected[i].root);
        assert_string_equal(mount.point, expected[i].point);
        assert_string_equal(mount.type, expected[i].type);
        assert_string_equal(mount.options, expected[i].options);
    }
    assert_false(parse_mount(&at, &mount));
}

static void a_field_is_the_number_behind_its_name(void **)
{
    static const char text[] = "PPid:\t7\nUid:\t1000\t1001\nMax core file size        unlimited";
    assert_int_equal(parse_field(text, "PPid:", 0), 7);
    assert_int_equal(parse_field(text, "Uid:", 0), 1000);
    assert_int_equal(parse_field(text, "Max core file size", 5), 5);
    assert_int_equal(parse_field(text, "Gid:", 6), 6);
    assert_int_equal(parse_field("-1", "", 8), 8);
    assert_int_equal(parse_field("Name:\tRssAnon: 0\nRssAnon:\t  90 kB\n", "RssAnon:", 5), 90);
    assert_int_equal(parse_field("Name:\tRssAnon: 0\n", "RssAnon:", 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_whole_texts),
        cmocka_unit_test(units_are_powers_of_1024),
        cmocka_unit_test(percent_encoding_is_decoded_whole_or_not_at_all),
        cmocka_unit_test(seconds_have_three_decimals),
        cmocka_unit_test(a_table_of_mounts_is_read_line_by_line),
        cmocka_unit_test(a_field_is_the_number_behind_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
