#include "tools/changes/paths.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "sandbox/sandbox.h"
#include "tests/unit/unit.h"

/* The normal form of one path, or what is wrong with it. */
static const char *normal(const char *path, size_t size)
{
    static char out[1000];
    struct changes_paths paths;
    struct buf why = BUF_EMPTY;
    json_auto_t *argument = json_pack("[o]", json_stringn_nocheck(path, size));
    struct box_spec spec;
    box_spec_init(&spec);
    spec.workspace = "/srv/project";
    int r = changes_paths_take(&spec, argument, &paths, &why);
    assert_int_equal(buf_append(&why, "", 1), 0);
    assert_true(r == 0 || r == -EINVAL);
    assert_true((r == 0) == (buf_size(&why) == 1));
    strncpy(out, r ? buf_bytes(&why) : paths.at[0], sizeof out - 1);
    buf_done(&why);
    changes_paths_done(&paths);
    return out;
}

static void paths_become_normal(void **)
{
    static const char *const rows[][2] = {
        {"src/a.py", "src/a.py"},
        {"./src//a.py/.", "src/a.py"},
        {"src/", "src"},
        {".", ""},
        {"/work", ""},
        {"/work/", ""},
        {"/work//src", "src"},
        {"...", "..."},
        {"a..b", "a..b"},
        {"*.py", "*.py"},
        {"/srv/project/src/a.py", "src/a.py"},
        {"/srv/project", ""},
        {"~/x", "~/x"},
        {"\"src/\\303\\251.py\"", "src/\303\251.py"},
        {"\"/work/a\\nb\"", "a\nb"},
        {"\"half", "\"half"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(normal(rows[i][0], strlen(rows[i][0])), rows[i][1]);
    }
}

static void others_are_refused_with_a_sentence(void **)
{
    assert_string_equal(normal("", 0), "/paths/0: \"\" is empty; \".\" is the whole workspace.");
    assert_string_equal(normal("/etc/passwd", 11),
                        "/paths/0: /etc/passwd is outside of the workspace; send paths that are "
                        "relative to it.");
    assert_non_null(strstr(normal("/srv/project2/a", 15), "outside"));
    assert_non_null(strstr(normal("/srv/project/../a", 17), "outside"));
    assert_non_null(strstr(normal("/worker", 7), "outside"));
    assert_non_null(strstr(normal("/", 1), "outside"));
    assert_non_null(strstr(normal("a/../b", 6), "contains \"..\""));
    assert_non_null(strstr(normal("..", 2), "contains \"..\""));
    assert_non_null(strstr(normal("a\0b", 3), "contains a NUL"));
    char big[5000];
    memset(big, 'x', sizeof big);
    assert_non_null(strstr(normal(big, sizeof big), "longer than 4095 bytes"));
    assert_string_equal(normal(big, 250) + 249, "x");
}

static void a_quoted_path_is_checked_as_any_other(void **)
{
    static const char up[] = "\"a/\\056\\056/b\"";
    assert_non_null(strstr(normal(up, sizeof up - 1), "contains \"..\""));
    static const char absolute[] = "\"\\057etc\"";
    assert_non_null(strstr(normal(absolute, sizeof absolute - 1), "outside"));
}

static void paths_have_what_is_in_them(void **)
{
    struct changes_paths paths = {.at = {(char[]){"src"}, (char[]){"a.txt"}}, .count = 2};
    struct changes_paths all = {.at = {(char[]){""}}, .count = 1};
    assert_true(changes_paths_have(&paths, "src"));
    assert_true(changes_paths_have(&paths, "src/x/y"));
    assert_true(changes_paths_have(&paths, "a.txt"));
    assert_false(changes_paths_have(&paths, "src2"));
    assert_false(changes_paths_have(&paths, "b"));
    assert_true(changes_paths_have(&all, "b"));
    assert_true(changes_paths_have(&(struct changes_paths){}, "b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_become_normal),
        cmocka_unit_test(others_are_refused_with_a_sentence),
        cmocka_unit_test(a_quoted_path_is_checked_as_any_other),
        cmocka_unit_test(paths_have_what_is_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
