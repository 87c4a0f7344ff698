#include "tools/content/mounts.h"

#include <string.h>

#include "tests/unit/unit.h"

static void path_becomes_a_uri_and_comes_back(void **)
{
    static const char *const pairs[][2] = {
        {"a", "a"},
        {"a/b.txt", "a/b.txt"},
        {"100% é.csv", "100%25%20%C3%A9.csv"},
        {"a?b#c:d", "a%3Fb%23c%3Ad"},
        {"\xff\n\\", "%FF%0A%5C"},
        {"...", "..."},
        {".hidden/x", ".hidden/x"},
        {"A-Z_~", "A-Z_~"},
    };
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[LIMIT_PATH_BYTES];
        json_t *uri = resource_uri(pairs[i][0]);
        assert_memory_equal(json_string_value(uri), RESOURCE_PREFIX, sizeof RESOURCE_PREFIX - 1);
        assert_string_equal(json_string_value(uri) + sizeof RESOURCE_PREFIX - 1, pairs[i][1]);
        assert_true(resource_path(json_string_value(uri), path));
        assert_string_equal(path, pairs[i][0]);
        json_decref(uri);
    }
}

static void uri_outside_the_workspace_is_refused(void **)
{
    static const char *const uris[] = {
        "",
        "file:///work/a",
        "sandpiper://workspace",
        RESOURCE_PREFIX,
        RESOURCE_PREFIX "/etc/passwd",
        RESOURCE_PREFIX "..",
        RESOURCE_PREFIX "../a",
        RESOURCE_PREFIX "a/%2E%2e/b",
        RESOURCE_PREFIX "a/./b",
        RESOURCE_PREFIX "a//b",
        RESOURCE_PREFIX "a/",
        RESOURCE_PREFIX "a%00b",
        RESOURCE_PREFIX "a%0",
        RESOURCE_PREFIX "a%",
        RESOURCE_PREFIX "a%zz",
        RESOURCE_PREFIX "a%-1",
        RESOURCE_PREFIX "a?x=1",
        RESOURCE_PREFIX "a#x",
    };
    for (unsigned i = 0; i < sizeof uris / sizeof *uris; i++) {
        char path[LIMIT_PATH_BYTES];
        assert_false(resource_path(uris[i], path));
    }
}

static void path_at_the_limit_passes_one_over_fails(void **)
{
    char path[LIMIT_PATH_BYTES];
    char uri[sizeof RESOURCE_PREFIX + LIMIT_PATH_BYTES] = RESOURCE_PREFIX;
    memset(uri + sizeof RESOURCE_PREFIX - 1, 'x', LIMIT_PATH_BYTES);
    assert_false(resource_path(uri, path));
    uri[sizeof RESOURCE_PREFIX - 1 + LIMIT_PATH_BYTES - 1] = '\0';
    assert_true(resource_path(uri, path));
    assert_int_equal(strlen(path), LIMIT_PATH_BYTES - 1);
}

static void cursor_round_trips_and_others_are_refused(void **)
{
    static const char *const bad[] = {"", "!", "Li4=", "Li4vYQ==", "L2V0Yw==", "YQBi", "YS8="};
    char path[LIMIT_PATH_BYTES];
    json_t *cursor = resource_cursor("a/b \xff");
    assert_true(resource_cursor_read(json_string_value(cursor), path));
    assert_string_equal(path, "a/b \xff");
    json_decref(cursor);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(resource_cursor_read(bad[i], path));
    }
}

static void walk_continues_after_the_cursor(void **)
{
    static const struct {
        const char *path;
        const char *cursor;
        enum resource_place place;
    } cases[] = {
        {"a", "b", RESOURCE_BEFORE},       {"c", "b", RESOURCE_BEHIND},
        {"b", "b", RESOURCE_LEADS},        {"b", "b/x", RESOURCE_LEADS},
        {"b/a", "b", RESOURCE_BEHIND},     {"b/a", "b/x", RESOURCE_BEFORE},
        {"b/y", "b/x", RESOURCE_BEHIND},   {"b", "bc", RESOURCE_BEFORE},
        {"bc", "b", RESOURCE_BEHIND},      {"b.txt", "b/x", RESOURCE_BEHIND},
        {"b/x", "b.txt", RESOURCE_BEFORE}, {"b\xff", "b/x", RESOURCE_BEHIND},
        {"b/x/y", "b/x", RESOURCE_BEHIND}, {"\xc3", "z", RESOURCE_BEHIND},
        {"b\x01", "b/x", RESOURCE_BEHIND}, {"b/x", "b\x01", RESOURCE_BEFORE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(resource_place(cases[i].path, cases[i].cursor), cases[i].place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_becomes_a_uri_and_comes_back),
        cmocka_unit_test(uri_outside_the_workspace_is_refused),
        cmocka_unit_test(path_at_the_limit_passes_one_over_fails),
        cmocka_unit_test(cursor_round_trips_and_others_are_refused),
        cmocka_unit_test(walk_continues_after_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
