#include "sandbox/workspace/protected.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/sandbox.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct box_spec spec;

static int set_up(void **)
{
    temp_make(&temp);
    box_spec_init(&spec);
    spec.workspace = temp.path;
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static uint64_t find(const char *word)
{
    return box_protected_find(word, strlen(word));
}

static void link_to(const char *from, const char *to)
{
    assert_int_equal(linkat(temp.fd, from, temp.fd, to, 0), 0);
}

static void a_word_selects_its_row_all_below_it_or_everything(void **)
{
    uint64_t git = find(".git");
    assert_true(find(".vscode") != 0 && (find(".vscode") & git) == 0);
    assert_true(find(".git/config") != 0 && (find(".git/config") & ~git) == 0);
    assert_true((find(".githooks") & git) == 0);
    assert_true(find("hard-links") == 1ULL << PROTECTED_LINKS);
    assert_true((find("all") & (git | find("hard-links"))) == (git | find("hard-links")));
    static const char *const unknown[] = {"",   ".gi", "vscode", ".git/", ".git/config/x",
                                          "al", "alls"};
    for (unsigned i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_true(find(unknown[i]) == 0);
    }
}

static void a_path_is_found_by_its_components(void **)
{
    static const char *const rows[][2] = {
        {".mcp.json", ".mcp.json"},
        {"a/b/.vscode/tasks.json", ".vscode"},
        {"/work/.vscode", ".vscode"},
        {"/work//./x/../.envrc", ".envrc"},
        {".git/hooks/pre-commit", ".git/hooks"},
        {".git", ".git"},
        {".Git/Config", ".git/config"},
        {".git/modules/a/b/config", ".git/config"},
        {".github/hooks/x", ".github/hooks"},
        {".git/HEAD", NULL},
        {".git/objects/aa/bb", NULL},
        {".github/workflows/ci.yml", NULL},
        {".gitignore", NULL},
        {"x.mcp.json", NULL},
        {".vscode2/a", NULL},
        {"hooks/config", NULL},
        {"/tmp/.vscode/a", NULL},
        {"/workspace/.vscode", NULL},
        {"", NULL},
        {"/", NULL},
        {"/work", NULL},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *found = box_protected_path(&spec, rows[i][0]);
        if (!rows[i][1] != !found || (found && strcmp(found, rows[i][1]) != 0)) {
            fail_msg("%s: %s", rows[i][0], found ? found : "none");
        }
    }
    spec.allow_write = find(".vscode");
    assert_null(box_protected_path(&spec, ".vscode/a"));
    assert_non_null(box_protected_path(&spec, ".envrc"));
    spec.workspace = NULL;
    assert_null(box_protected_path(&spec, ".envrc"));
}

static struct box_protected look(uint64_t open)
{
    struct box_protected found = {};
    assert_int_equal(protect_directory(&(struct protect_root){temp.path, temp.path}, 1, open,
                                       /* mounts= */ false, &found),
                     0);
    return found;
}

static void names_are_found_at_any_depth(void **)
{
    assert_int_equal(look(0).names, 0);
    temp_file(&temp, ".git/config", "[core]\n  HooksPath = \"my/hooks\" # ours\n", 0644);
    temp_directory(&temp, ".git/hooks");
    temp_directory(&temp, "my/hooks");
    temp_file(&temp, "a/b/.vscode/tasks.json", "", 0644);
    temp_file(&temp, "tree/.git", "gitdir: ../.git/worktrees/tree\n", 0644);
    temp_file(&temp, ".git/worktrees/tree/commondir", "../..\n", 0644);
    temp_file(&temp, ".git/modules/a/b/config", "", 0644);
    temp_link(&temp, "nowhere", ".idea");
    assert_int_equal(look(0).names, 8);
    assert_int_equal(look(find(".vscode")).names, 7);
    assert_int_equal(look(find("all")).names, 0);
    assert_false(look(0).enforced || look(0).incomplete);
}

static void hard_links_with_outside_or_protected_names_are_found(void **)
{
    temp_file(&temp, "outside/store", "", 0644);
    temp_file(&temp, "work/built", "", 0644);
    temp_file(&temp, "work/.envrc", "", 0644);
    temp_directory(&temp, "work/deps");
    temp_directory(&temp, "work/node_modules/a");
    char path[PATH_MAX];
    struct box_protected found = {};
    const struct protect_root root = {path, path};
    (void)temp_path(&temp, "work", path);
    link_to("work/built", "work/deps/built-1");
    assert_int_equal(protect_directory(&root, 1, 0, /* mounts= */ false, &found), 0);
    assert_int_equal(found.links, 0);
    link_to("outside/store", "work/data");
    link_to("work/.envrc", "work/notes");
    link_to("outside/store", "work/node_modules/a/one");
    link_to("outside/store", "work/node_modules/a/two");
    found = (struct box_protected){};
    assert_int_equal(protect_directory(&root, 1, 0, /* mounts= */ false, &found), 0);
    assert_int_equal(found.links, 3); /* data, notes, and node_modules as a whole */
    assert_int_equal(found.links_open, 3);
    found = (struct box_protected){};
    assert_int_equal(protect_directory(&root, 1, find("hard-links"), /* mounts= */ false, &found),
                     0);
    assert_int_equal(found.links, 0);
}

static void changes_are_reported_once(void **)
{
    struct box_protected_watch watch = {.dir_fd = -1};
    char text[64];
    temp_file(&temp, ".git/config", "", 0644);
    temp_file(&temp, ".claude/a", "1", 0644);
    box_protected_watch(&spec, UINT64_MAX, &watch);
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
    temp_file(&temp, "ordinary", "", 0644);
    temp_file(&temp, ".git/index", "", 0644);
    temp_file(&temp, ".claude/b", "read-only for code", 0644);
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
    temp_directory(&temp, ".vscode");
    temp_directory(&temp, ".git/hooks");
    temp_file(&temp, "next", "", 0644);
    assert_int_equal(renameat(temp.fd, "next", temp.fd, ".git/config"), 0);
    assert_true(box_protected_news(&spec, &watch, text, sizeof text));
    assert_string_equal(text, "+.git/hooks ~.git/config +.vscode");
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
    temp_file(&temp, ".vscode/deep/er/x", "", 0644); /* it is writable */
    assert_true(box_protected_news(&spec, &watch, text, sizeof text));
    assert_string_equal(text, "~.vscode");
    box_protected_unwatch(&watch);
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
}

static void without_mounts_the_content_is_compared(void **)
{
    struct box_protected_watch watch = {.dir_fd = -1};
    char text[16];
    temp_file(&temp, ".claude/a", "1", 0644);
    temp_file(&temp, ".mcp.json", "1", 0644);
    box_protected_watch(&spec, 0, &watch);
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
    temp_file(&temp, ".claude/a", "22", 0644);
    temp_file(&temp, ".mcp.json", "22", 0644);
    assert_true(box_protected_news(&spec, &watch, text, sizeof text));
    assert_memory_equal(text, "~.mcp.json ~.cl", sizeof text);
    spec.allow_write = find("all");
    temp_file(&temp, ".mcp.json", "333", 0644);
    assert_false(box_protected_news(&spec, &watch, text, sizeof text));
    box_protected_unwatch(&watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_word_selects_its_row_all_below_it_or_everything, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_found_by_its_components, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_found_at_any_depth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hard_links_with_outside_or_protected_names_are_found,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_are_reported_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_mounts_the_content_is_compared, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
