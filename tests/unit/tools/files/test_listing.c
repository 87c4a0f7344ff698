#include "tools/files/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct buf text;

static int set_up(void **)
{
    temp_make(&temp);
    text = BUF_EMPTY;
    return 0;
}

static int tear_down(void **)
{
    buf_done(&text);
    temp_remove(&temp);
    return 0;
}

static const char *list(void)
{
    int fd = openat(temp.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(listing_compose(fd, "data", 0, 0, &text), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken */
    assert_int_equal(buf_append(&text, "", 1), 0);
    return buf_bytes(&text);
}

static void empty_directory_says_so(void **)
{
    assert_string_equal(list(), "[directory data, 0 entries]\n");
}

static void entries_are_sorted_and_say_what_they_are(void **)
{
    temp_file(&temp, "b.txt", "12345", 0644);
    temp_file(&temp, "a.txt", "", 0000);
    temp_directory(&temp, "c");
    temp_file(&temp, "c/inside", "", 0644);
    temp_link(&temp, "/etc/passwd", "link");
    temp_link(&temp, "nowhere", "broken");
    assert_int_equal(mkfifoat(temp.fd, "pipe", 0644), 0);
    temp_file(&temp, ".hidden", "x", 0644);
    assert_string_equal(list(),
                        "[directory data, 7 entries]\n"
                        ".hidden (1 B)\n"
                        "a.txt (0 B)\n"
                        "b.txt (5 B)\n"
                        "broken -> nowhere\n"
                        "c/\n"
                        "link -> /etc/passwd\n"
                        "pipe (not a regular file)\n");
}

static void a_name_cannot_forge_a_line(void **)
{
    temp_file(&temp, "a\n[directory x, 0 entries]", "", 0644);
    temp_link(&temp, "x\ny\033[2K", "link");
    assert_string_equal(list(),
                        "[directory data, 2 entries]\n"
                        "\"a\\n\\x5bdirectory x, 0 entries\\x5d\" (0 B)\n"
                        "link -> \"x\\ny\\x1b\\x5b2K\"\n");
}

static const char *list_from(long long first, long long last)
{
    int fd = openat(temp.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    text.end = text.start;
    assert_int_equal(listing_compose(fd, "data", first, last, &text), 0);
    assert_int_equal(buf_append(&text, "", 1), 0);
    return buf_bytes(&text);
}

static void long_listing_continues_where_it_was_cut(void **)
{
    for (unsigned i = 0; i < 300; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "f%04u%0100u", 299 - i, 0U);
        temp_file(&temp, name, "", 0644);
    }
    const char *whole = list();
    assert_ptr_equal(strstr(whole, "[directory data, 300 entries]\nf00000000"), whole);
    assert_true(strlen(whole) < 17000);
    const char *place = strstr(whole, "[entries 1-143 of 300; continue with start_line=144]\n");
    assert_non_null(place);
    assert_null(strstr(whole, "f0143"));
    assert_non_null(strstr(list_from(144, 0), "entries]\nf0143"));
    const char *part = list_from(299, 299);
    assert_non_null(strstr(part, "entries]\nf0298"));
    assert_non_null(strstr(part, "[entries 299-299 of 300; continue with start_line=300]\n"));
    assert_null(strstr(list_from(299, 500), "continue"));
    assert_string_equal(list_from(400, 0), "[directory data, 300 entries]\n");
}

static void a_file_is_not_listed(void **)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(listing_compose(fd, "data", 0, 0, &text), -ENOTDIR);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(buf_size(&text), 0);
}

#define LISTING_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LISTING_TEST(empty_directory_says_so),
        LISTING_TEST(entries_are_sorted_and_say_what_they_are),
        LISTING_TEST(a_name_cannot_forge_a_line),
        LISTING_TEST(long_listing_continues_where_it_was_cut),
        LISTING_TEST(a_file_is_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
