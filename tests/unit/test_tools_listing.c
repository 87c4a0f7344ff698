#include "tools/listing.h"

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
    assert_int_equal(listing_compose(fd, "data", &text), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* taken */
    assert_int_equal(buf_append(&text, "", 1), 0);
    return buf_bytes(&text);
}

static void empty_folder_says_so(void **)
{
    assert_string_equal(list(), "[directory data, 0 entries]\n");
}

static void entries_are_sorted_and_say_what_they_are(void **)
{
    temp_file(&temp, "b.txt", "12345", 0644);
    temp_file(&temp, "a.txt", "", 0000);
    temp_folder(&temp, "c");
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

static void name_cannot_write_a_line_of_its_own(void **)
{
    temp_file(&temp, "a\n[directory x, 0 entries]", "", 0644);
    temp_link(&temp, "x\ny\033[2K", "link");
    assert_string_equal(list(),
                        "[directory data, 2 entries]\n"
                        "a?[directory x, 0 entries] (0 B)\n"
                        "link -> x?y?[2K\n");
}

static void long_listing_is_cut_with_a_count(void **)
{
    for (unsigned i = 0; i < 503; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%04u", 502 - i);
        temp_file(&temp, name, "", 0644);
    }
    const char *whole = list();
    assert_ptr_equal(strstr(whole, "[directory data, 503 entries]\nf0000 (0 B)\nf0001 "), whole);
    assert_non_null(strstr(whole, "f0499 (0 B)\n… and 3 more\n"));
    assert_null(strstr(whole, "f0500"));
}

static void what_is_no_folder_is_an_error(void **)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(listing_compose(fd, "data", &text), -ENOTDIR);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(buf_size(&text), 0);
}

#define LISTING_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LISTING_TEST(empty_folder_says_so),
        LISTING_TEST(entries_are_sorted_and_say_what_they_are),
        LISTING_TEST(name_cannot_write_a_line_of_its_own),
        LISTING_TEST(long_listing_is_cut_with_a_count),
        LISTING_TEST(what_is_no_folder_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
