#include "tools/changes/paths.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;

static int set_up(void **)
{
    temp_make(&temp);
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

/* The ignored part of a path; a slash at its end: it is a directory. */
static const char *found(struct ignored *ignored, const char *path)
{
    static char name[300];
    static char out[300];
    size_t size = strlen(path);
    bool is_directory = path[size - 1] == '/';
    (void)snprintf(name, sizeof name, "%.*s", (int)(size - is_directory), path);
    (void)snprintf(out, sizeof out, "%.*s", (int)ignored_find(ignored, name, is_directory), name);
    return out;
}

static void the_last_rule_of_the_nearest_file_decides(void **)
{
    static const char *const rows[][2] = {
        {"a.log", "a.log"},
        {"src/a.log", "src/a.log"},
        {"keep.log", ""},
        {"src/keep.log", ""},
        {"build/", "build"},
        {"build", ""},
        {"src/build/x/y", "src/build"},
        {"docs/a.html", "docs/a.html"},
        {"src/docs/a.html", ""},
        {"docs/b/a.html", ""},
        {"top", "top"},
        {"src/top", ""},
        {"a/x/y/b", "a/x/y/b"},
        {"a/b", "a/b"},
        {"out/x", "out/x"},
        {"out/", ""},
        {"src/deep/cache", "src/deep/cache"},
        {"src/kept.tmp", ""},
        {"kept.tmp", "kept.tmp"},
        {"src/sub/kept.tmp", ""},
        {"#file", "#file"},
        {"comment", ""},
        {"x1", "x1"},
        {"xa", ""},
        {"end ", "end "},
        {"end", ""},
        {"build/keep.log", "build"},
        {".gitignore", ""},
        {"crlf", "crlf"},
        {"z]", "z]"},
        {"d1.x", "d1.x"},
        {"da.x", ""},
        {"d1", ""},
    };
    char path[PATH_MAX];
    temp_file(&temp, ".gitignore",
              "\xEF\xBB\xBF*.log\n!keep.log\n# "
              "comment\ncomment#\nbuild/\ndocs/*.html\n/top\na/**/b\nout/**\n"
              "**/deep/cache\n*.tmp   \n\\#file\nx[!a-z]\nend\\ "
              "\ncrlf\r\nz[]]\nd[[:digit:]]?x\n/\n!\n\n[\n\\\n",
              0644);
    temp_file(&temp, "src/.gitignore", "!kept.tmp\n", 0644);
    struct ignored *ignored = ignored_new(temp_path(&temp, "", path));
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(found(ignored, rows[i][0]), rows[i][1]);
    }
    ignored_free(ignored);
}

static void symlinks_and_what_is_too_large_ignore_nothing(void **)
{
    static char large[70000];
    char path[PATH_MAX];
    memset(large, 'x', sizeof large - 1);
    memcpy(large, "*\n", 2);
    temp_file(&temp, "rules", "*\n", 0644);
    temp_link(&temp, "../rules", "one/.gitignore");
    temp_file(&temp, "two/.gitignore", large, 0644);
    temp_file(&temp, "three/.gitignore", "*\n", 0644);
    struct ignored *ignored = ignored_new(temp_path(&temp, "", path));
    assert_string_equal(found(ignored, "one/a"), "");
    assert_string_equal(found(ignored, "two/a"), "");
    assert_string_equal(found(ignored, "three/a"), "three/a");
    ignored_free(ignored);
    ignored = ignored_new("/nonexistent");
    assert_string_equal(found(ignored, "three/a"), "");
    ignored_free(ignored);
}

/* Without a bound it takes minutes. */
static void the_work_is_bounded(void **)
{
    static char rules[60000];
    char name[250];
    char path[PATH_MAX];
    for (unsigned i = 0; i + 20 < sizeof rules; i += 18) {
        memcpy(rules + i, "*a*a*a*a*a*a*a*ab\n", 18);
    }
    temp_file(&temp, ".gitignore", rules, 0644);
    memset(name, 'a', sizeof name);
    struct ignored *ignored = ignored_new(temp_path(&temp, "", path));
    for (unsigned i = 0; i < 10000; i++) {
        (void)snprintf(name + 240, sizeof name - 240, "%u", i);
        assert_string_equal(found(ignored, name), "");
    }
    ignored_free(ignored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_rule_of_the_nearest_file_decides, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(symlinks_and_what_is_too_large_ignore_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_work_is_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
