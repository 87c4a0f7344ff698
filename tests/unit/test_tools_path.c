#include "tools/path.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static const char *take(const char *bytes, size_t size, char *out)
{
    json_t *argument = json_stringn_nocheck(bytes, size);
    const char *problem = path_take(argument, out);
    json_decref(argument);
    return problem;
}

static void path_is_taken_as_it_is(void **)
{
    static const char *const paths[] = {"a", "/", "../x", "/work/../etc/passwd", "é b\n"};
    char out[LIMIT_PATH_BYTES];
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_null(take(paths[i], strlen(paths[i]), out));
        assert_string_equal(out, paths[i]);
    }
}

static void path_at_the_limit_passes_one_over_fails(void **)
{
    char out[LIMIT_PATH_BYTES];
    char path[LIMIT_PATH_BYTES + 1];
    memset(path, 'x', sizeof path);
    assert_null(take(path, LIMIT_PATH_BYTES - 1, out));
    assert_int_equal(strlen(out), LIMIT_PATH_BYTES - 1);
    const char *problem = take(path, LIMIT_PATH_BYTES, out);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "4095"));
}

static void empty_path_and_nul_are_refused_with_a_sentence(void **)
{
    char out[LIMIT_PATH_BYTES];
    const char *problem = take("", 0, out);
    assert_non_null(problem);
    assert_memory_equal(problem, "/path: is empty", 15);
    problem = take("a\0b", 3, out);
    assert_non_null(problem);
    assert_non_null(strstr(problem, "NUL"));
    assert_non_null(path_take(NULL, out));
}

static void error_is_a_sentence_with_the_name(void **)
{
    char out[512];
    assert_ptr_equal(path_error(&box_view_full, "a/b", ENOENT, out, sizeof out), out);
    assert_string_equal(out, "a/b not found.");
    assert_non_null(strstr(path_error(&box_view_full, "a", ENOSPC, out, sizeof out), "--disk"));
    assert_non_null(
        strstr(path_error(&box_view_full, "a", EEXIST, out, sizeof out), "mode=\"overwrite\""));
    assert_non_null(strstr(path_error(&box_view_full, "a", EMEDIUMTYPE, out, sizeof out),
                           "not a regular file"));
    /* What no sentence was written for is still told. */
    assert_string_equal(path_error(&box_view_full, "a", EXDEV, out, sizeof out),
                        "a Invalid cross-device link.");
}

static void long_name_leaves_room_for_the_reason(void **)
{
    char path[LIMIT_PATH_BYTES];
    char out[512];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_non_null(
        strstr(path_error(&box_view_full, path, ENOENT, out, sizeof out), "xxx\"... not found."));
    (void)path_error(&box_view_full, path, ENOENT, out, 16);
    assert_int_equal(strlen(out), 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_is_taken_as_it_is),
        cmocka_unit_test(path_at_the_limit_passes_one_over_fails),
        cmocka_unit_test(empty_path_and_nul_are_refused_with_a_sentence),
        cmocka_unit_test(error_is_a_sentence_with_the_name),
        cmocka_unit_test(long_name_leaves_room_for_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
