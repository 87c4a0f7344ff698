#include "sandbox/workspace/protected.h"

#include <string.h>

#include "tests/unit/unit.h"

/* The row that refuses the path, where this one is named (NULL: none); "" if none does. */
static const char *row_of(const char *path, unsigned flags, const char *named)
{
    struct refused refused = {.row = ""};
    const struct refused_rules rules = {.flags = flags & REFUSED_HOME};
    bool is = refused_find(&rules, path, flags & REFUSED_BARE, &named, named != NULL, &refused);
    assert_true(is == (refused.row[0] != '\0'));
    assert_true(refused.size <= strlen(path) && (!is || refused.size > 0));
    return refused.row;
}

static void names_are_found_at_any_depth_and_in_any_case(void **)
{
    static const char *const rows[][2] = {
        {".git", ".git"},
        {"a/.GIT/hooks/x", ".git"},
        {"a/.git/objects/12/34", ".git"},
        {".gitmodules", ".gitmodules"},
        {"x/.GitHub/Workflows/ci.yml", ".github/workflows"},
        {".github/workflows", ".github/workflows"},
        {".github/dependabot.yml", ""},
        {".github", ""},
        {".vscode/tasks.json", ".vscode"},
        {"sub/.envrc", ".envrc"},
        {"lib/x.PTH", "*.pth"},
        {"x.pth/y", "*.pth"},
        {".pth", "*.pth"},
        {"pth", ""},
        {"a/sitecustomize.py", "sitecustomize.*"},
        {"sitecustomize.pyc", "sitecustomize.*"},
        {"lib/usercustomize/__init__.py", "usercustomize"},
        {"x/sitecustomize.cpython-313-x86_64-linux-gnu.so", "sitecustomize.*"},
        {"sitecustomized.py", ""},
        {"lefthook.json", "lefthook.json"},
        {"lefthook.jsonc", "lefthook.*"},
        {"mise.ci.toml", "mise.*.toml"},
        {"mise/config.local.toml", "mise/config.*"},
        {"mise/src.rs", ""},
        {"a.code-workspace", "*.code-workspace"},
        {"code-workspace", ""},
        {".cargo/config.toml", ".cargo/config.toml"},
        {".cargo/x", ""},
        {"venv/bin/python", "venv/bin"},
        {"venv/lib/x", ""},
        {".gitx/config", ""},
        {"a.git/config", ""},
        {"a.git/HEAD", ""},
        {"git/x", ""},
        {".bashrc", ""},
        {"src/a.py", ""},
        {"", ""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(row_of(rows[i][0], 0, NULL), rows[i][1]);
    }
}

static void every_protected_name_is_refused(void **)
{
    for (unsigned i = 0; box_protected_name(i); i++) {
        assert_string_not_equal(row_of(box_protected_name(i), 0, NULL), "");
        assert_string_equal(row_of(box_protected_name(i), 0, ""),
                            row_of(box_protected_name(i), 0, NULL));
    }
}

/* As ext4 and f2fs compare them in a directory with the flag +F. */
static void other_spellings_of_a_name_are_found(void **)
{
    assert_string_equal(row_of(".g\u200dit/config", 0, NULL), ".git");
    assert_string_equal(row_of("\ufeff.git", 0, NULL), ".git");
    assert_string_equal(row_of(".v\u017fcode", 0, NULL), ".vscode");
    assert_string_equal(row_of(".hu\u017f\u212ay", 0, NULL), ".husky");
    assert_string_equal(row_of(".g\xff"
                               "it",
                               0, NULL),
                        "");
}

/* As a directory of Windows that is mounted here finds them. */
static void spellings_of_windows_are_found(void **)
{
    static const char *const rows[][2] = {
        {".git./config", ".git"},
        {".git /x", ".git"},
        {".git::$INDEX_ALLOCATION/x", ".git"},
        {".envrc. .", ".envrc"},
        {"lib/x.pth.", "*.pth"},
        {".github./workflows /x", ".github/workflows"},
        {"git~1/hooks/x", "~1"},
        {"a/PRE-CO~1.YAM", "~1"},
        {"ENVRC~12", "~1"},
        {"~1", ""},
        {"a~", ""},
        {"a.~1~", ""},
        {"a~1b", ""},
        {"release~10", ""},
        {"a~1.json", ""},
        {"git :x", ""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(row_of(rows[i][0], 0, NULL), rows[i][1]);
    }
    assert_string_equal(row_of("git~1/hooks/x", 0, "git~1"), "");
}

static void the_name_or_a_path_in_it_opens_it(void **)
{
    assert_string_equal(row_of("a/.vscode/x/y", 0, "a"), ".vscode");
    assert_string_equal(row_of("a/.vscode/x/y", 0, ""), ".vscode");
    assert_string_equal(row_of("a/.vscode/x/y", 0, "a/.vscode"), "");
    assert_string_equal(row_of("a/.vscode/x/y", 0, "a/.vscode/x"), "");
    assert_string_equal(row_of("a/.vscode/x/y", 0, "a/.vscode/z"), ".vscode");
    assert_string_equal(row_of("a/.vscode/x/y", 0, "a/.vscode/x/y/z"), ".vscode");
    assert_string_equal(row_of("a/.vscode/x/y", 0, "b/.vscode"), ".vscode");
    assert_string_equal(row_of(".github/workflows/ci.yml", 0, ".github"), ".github/workflows");
    assert_string_equal(row_of("lib/x.pth", 0, "lib/x.pth"), "");
    /* Each name on the way has to be named. */
    assert_string_equal(row_of(".claude/.envrc", 0, ".claude"), ".envrc");
    assert_string_equal(row_of(".claude/.envrc", 0, ".claude/.envrc"), "");
}

static void git_is_opened_only_as_a_whole(void **)
{
    assert_string_equal(row_of("a/.git/hooks/x", 0, "a/.git"), "");
    assert_string_equal(row_of("a/.git/hooks/x", 0, "a/.git/hooks/x"), ".git");
    assert_string_equal(row_of("a/.git/modules/b/.git/config", 0, "a/.git"), "");
    assert_string_equal(row_of(".claude/.git/x", 0, ".claude"), ".git");
    assert_string_equal(row_of(".claude/.git/x", 0, ".claude/.git"), "");
    struct refused refused = {};
    const char *const both[] = {"a/.git/config", "a/.git"};
    const struct refused_rules none = {};
    assert_true(refused_find(&none, "a/.git/config", false, both, 1, &refused));
    assert_int_equal(refused.size, strlen("a/.git"));
    assert_false(refused_find(&none, "a/.git/config", false, both, 2, &refused));
}

static void a_repository_without_git_directory_is_found_by_its_flag(void **)
{
    assert_string_equal(row_of("r/hooks/post-commit", REFUSED_BARE, NULL), "hooks");
    assert_string_equal(row_of("r/config", REFUSED_BARE, "r"), "config");
    assert_string_equal(row_of("r/config", REFUSED_BARE, "r/config"), "");
    assert_string_equal(row_of("HEAD", REFUSED_BARE, ""), "HEAD");
    assert_string_equal(row_of("r/objects/12/34", REFUSED_BARE, NULL), "objects");
    assert_string_equal(row_of("r/refs/heads/x", REFUSED_BARE, NULL), "refs");
    assert_string_equal(row_of("r/info/exclude", REFUSED_BARE, NULL), "");
    assert_string_equal(row_of("r/config", 0, NULL), "");
}

static void in_a_home_directory_dot_files_are_refused(void **)
{
    assert_string_equal(row_of(".bashrc", REFUSED_HOME, NULL), "dot files");
    assert_string_equal(row_of(".config/x/y", REFUSED_HOME, ""), "dot files");
    assert_string_equal(row_of(".config/x/y", REFUSED_HOME, ".config/x"), "");
    assert_string_equal(row_of("src/.x", REFUSED_HOME, NULL), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_at_any_depth_and_in_any_case),
        cmocka_unit_test(every_protected_name_is_refused),
        cmocka_unit_test(other_spellings_of_a_name_are_found),
        cmocka_unit_test(spellings_of_windows_are_found),
        cmocka_unit_test(the_name_or_a_path_in_it_opens_it),
        cmocka_unit_test(git_is_opened_only_as_a_whole),
        cmocka_unit_test(a_repository_without_git_directory_is_found_by_its_flag),
        cmocka_unit_test(in_a_home_directory_dot_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
