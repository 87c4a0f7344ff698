#include "tools/changes/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "tests/unit/unit.h"

static struct buf records;
static struct buf out;
static struct changes_paths paths;

static int set_up(void **)
{
    records = BUF_EMPTY;
    out = BUF_EMPTY;
    paths = (struct changes_paths){};
    return 0;
}

static int tear_down(void **)
{
    buf_done(&records);
    buf_done(&out);
    return 0;
}

static void add(const char *path, struct change_record record)
{
    assert_int_equal(change_record_add(&records, &record, path, NULL), 0);
}

static void name(const char *path)
{
    paths.at[paths.count++] = (char *)(uintptr_t)path;
}

static const struct refused_rules rules;

static struct changes_view view(void)
{
    assert_true(change_records_are_valid(buf_bytes(&records), buf_size(&records)));
    return (struct changes_view){.rules = &rules,
                                 .records = buf_bytes(&records),
                                 .size = buf_size(&records),
                                 .paths = &paths,
                                 .patch_path = "/tmp/output/changes.diff"};
}

static const char *text(int r)
{
    assert_int_equal(r, 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    return buf_bytes(&out);
}

static const char *list(void)
{
    struct changes_view seen = view();
    return text(changes_text_list(&seen, &out));
}

static void each_change_has_its_line(void **)
{
    add(".git/config",
        (struct change_record){.sign = '~', .mode = S_IFREG | 0644, .before = 0644, .added = 1});
    add("a b.txt", (struct change_record){.sign = '+', .mode = S_IFREG | 0644, .added = 40});
    add("empty", (struct change_record){.sign = '+', .mode = S_IFREG | 0644});
    add("link", (struct change_record){.sign = '+', .mode = S_IFLNK, .added = 1});
    add("newdir", (struct change_record){.sign = '+', .mode = S_IFDIR | 0777});
    add("old.txt", (struct change_record){.sign = '-', .mode = S_IFREG, .removed = 7});
    add("out.png", (struct change_record){.sign = '+',
                                          .mode = S_IFREG,
                                          .bytes = 18000,
                                          .added = UINT32_MAX,
                                          .removed = UINT32_MAX});
    add("pipe", (struct change_record){.sign = '+', .mode = S_IFIFO, .flags = CHANGE_UNREADABLE});
    add("r/HEAD",
        (struct change_record){.sign = '+', .mode = S_IFREG, .added = 1, .flags = CHANGE_BARE});
    add("run.sh", (struct change_record){.sign = '~', .mode = S_IFREG | 0755});
    add("src/\303\251\n.py", (struct change_record){.sign = '~',
                                                    .mode = S_IFREG | 0666,
                                                    .before = 0600,
                                                    .added = 12,
                                                    .removed = 3,
                                                    .flags = CHANGE_IN_DIR | CHANGE_INVISIBLE});
    assert_string_equal(list(),
                        "~ .git/config +1 -0 (only if named: .git)\n"
                        "+ \"a b.txt\" 0 B\n"
                        "+ empty 0 B\n"
                        "+ link symlink\n"
                        "+ newdir/ mode 777\n"
                        "- old.txt\n"
                        "+ out.png 18 kB\n"
                        "+ pipe special file (not readable)\n"
                        "+ r/HEAD 0 B (only if named: r/HEAD)\n"
                        "~ run.sh mode 755\n"
                        "~ \"src/\303\251\\n.py\" +12 -3 mode 666 (adds invisible characters) "
                        "(also changed by the user)\n"
                        "[11 changes]\n");
}

static void add_file(char sign, const char *path, uint64_t hash)
{
    add(path,
        (struct change_record){.sign = sign, .mode = S_IFREG | 0644, .hash = hash, .bytes = 1});
}

static void directories_that_were_moved_have_a_line(void **)
{
    add_file('-', "a/x", 1);
    add_file('-', "a/y/one", 2);
    add_file('-', "a/y/two", 2);
    add_file('+', "b/c/x", 1);
    add_file('+', "b/c/y/one", 2);
    add_file('+', "b/c/y/two", 2);
    add_file('-', "d/x", 3);
    add_file('+', "e/x", 3); /* a single file */
    add_file('-', "f/x", 4);
    add_file('-', "f/y", 5);
    add_file('+', "g/x", 4);
    add_file('+', "g/y", 6); /* another content */
    assert_string_equal(list(),
                        "a/ -> b/c/ (3 files moved)\n"
                        "- d/x\n+ e/x 1 B\n- f/x\n- f/y\n+ g/x 1 B\n+ g/y 1 B\n"
                        "[12 changes]\n");
}

static void what_needs_a_word_is_not_hidden_in_a_move(void **)
{
    add_file('-', "a/x", 1);
    add_file('-', "a/y", 2);
    add_file('+', "b/x", 1);
    add("b/y", (struct change_record){
                   .sign = '+', .mode = S_IFREG | 0644, .hash = 2, .flags = CHANGE_IN_DIR});
    add_file('-', "c/.envrc", 3);
    add_file('-', "c/x", 4);
    add_file('+', "d/.envrc", 3);
    add_file('+', "d/x", 4);
    add_file('-', "e/x", 5);
    add_file('-', "e/y", 6);
    add_file('+', "f/x", 5);
    add("f/y", (struct change_record){.sign = '+', .mode = S_IFREG | 0755, .hash = 6});
    assert_null(strstr(list(), " -> "));
}

static void a_name_cannot_pose_as_text_of_the_server(void **)
{
    add("x +1\n[no changes]", (struct change_record){.sign = '+', .mode = S_IFREG, .added = 1});
    add("y (only if named: z)", (struct change_record){.sign = '-', .mode = S_IFREG});
    add("- z", (struct change_record){.sign = '-', .mode = S_IFREG});
    assert_string_equal(list(),
                        "+ \"x +1\\n[no changes]\" 0 B\n- \"y (only if named: z)\"\n"
                        "- \"- z\"\n[3 changes]\n");
}

static void paths_without_changes_are_named(void **)
{
    add("src/a.py", (struct change_record){.sign = '-', .mode = S_IFREG});
    name("src");
    name("src/x.py");
    name("lib");
    assert_string_equal(list(), "no changes: src/x.py\nno changes: lib\n- src/a.py\n[1 change]\n");
}

static void without_changes_it_says_so(void **)
{
    assert_string_equal(list(), "[no changes]\n");
    buf_clear(&out, SIZE_MAX);
    name("src");
    assert_string_equal(list(), "no changes: src\n[no changes in these paths]\n");
}

static void a_long_list_ends_at_a_line(void **)
{
    for (unsigned i = 0; i < 10000; i++) {
        char path[20];
        (void)snprintf(path, sizeof path, "f%05u", i);
        add(path, (struct change_record){.sign = '-', .mode = S_IFREG});
    }
    const char *shown = list();
    assert_true(strlen(shown) < LIMIT_TEXT_BYTES + 200);
    assert_non_null(strstr(shown, "\n[10000 changes; 8223 not listed: list one directory"));
    assert_non_null(strstr(shown, "- f01776\n["));
}

static void a_long_list_begins_with_what_the_user_has(void **)
{
    for (unsigned i = 0; i < 2000; i++) {
        char path[20];
        (void)snprintf(path, sizeof path, "build/f%05u", i);
        add(path, (struct change_record){.sign = '+', .mode = S_IFREG});
    }
    add("src/a.py", (struct change_record){.sign = '~', .mode = S_IFREG, .added = 1});
    add("src/new.py", (struct change_record){.sign = '+', .mode = S_IFREG});
    add("src/z.py", (struct change_record){.sign = '-', .mode = S_IFREG});
    const char *shown = list();
    assert_memory_equal(shown, "~ src/a.py +1 -0\n- src/z.py\n+ build/f00000 0 B\n", 46);
    assert_non_null(strstr(shown, "\n[2003 changes; "));
}

static int read_patch(void *, uint64_t at, size_t size, struct buf *to)
{
    for (size_t i = 0; i + 1 < size; i++) {
        assert_int_equal(buf_append(to, &(char){(char)('a' + at % 26)}, 1), 0);
    }
    return buf_append(to, "\n", 1);
}

static const char *patch(void)
{
    struct changes_view seen = view();
    return text(changes_text_patch(&seen, read_patch, NULL, &out));
}

static void a_patch_has_whole_files_only(void **)
{
    const struct change_record record = {.sign = '~', .mode = S_IFREG};
    struct change_record at = record;
    at.patch_size = 5;
    add("a", at);
    at = record;
    at.patch_at = 5;
    at.patch_size = LIMIT_TEXT_BYTES;
    add("big.txt", at);
    at = record;
    add("dir", at);
    at.patch_at = 27;
    at.patch_size = 4;
    at.flags = CHANGE_IN_DIR;
    add("z", at);
    at.flags = 0;
    at.patch_size = UINT64_MAX;
    add("zz", at);
    name("q");
    assert_string_equal(
        patch(),
        "aaaa\nbbb\nno changes: q\n"
        "[5 changes; 1 also changed by the user, which the patch would take back: z; 1 "
        "not in a patch: dir; 2 not shown, too long: "
        "big.txt, zz; the whole patch: /tmp/output/changes.diff]\n");
}

static void a_patch_begins_with_what_the_user_has(void **)
{
    add("build/out",
        (struct change_record){
            .sign = '+', .mode = S_IFREG, .patch_at = 5, .patch_size = LIMIT_TEXT_BYTES});
    add("src/a.py", (struct change_record){.sign = '~', .mode = S_IFREG, .patch_size = 5});
    assert_string_equal(patch(),
                        "aaaa\n[2 changes; 1 not shown, too long: build/out; the whole "
                        "patch: /tmp/output/changes.diff]\n");
}

static void many_left_out_files_are_counted(void **)
{
    for (unsigned i = 0; i < 15; i++) {
        char path[20];
        (void)snprintf(path, sizeof path, "f%u", i);
        add(path, (struct change_record){.sign = '~', .mode = S_IFREG, .patch_size = 20000});
    }
    assert_string_equal(patch(),
                        "[15 changes; 15 not shown, too long: f0, f1, f2, f3, f4, f5, f6, "
                        "f7, f8, f9 and 5 more; the whole patch: "
                        "/tmp/output/changes.diff]\n");
}

/* --- apply --- */

static struct buf journal;
static struct changes_applied applied;

static void item(const char *path, enum apply_status status, int error)
{
    const struct apply_facts facts = {};
    if (buf_size(&journal) == 0) {
        assert_int_equal(apply_journal_begin(&journal, 0, 0), 0);
    }
    assert_int_equal(apply_journal_add(&journal, path, &facts, &facts), 0);
    const struct apply_journal *head = (const void *)buf_bytes(&journal);
    struct apply_item *at = NULL;
    struct apply_item *last = NULL;
    while ((at = apply_journal_next(head, at))) {
        last = at;
    }
    last->status = status;
    last->error = error;
}

static void refuse(const char *path, size_t size, const char *row)
{
    assert_int_equal(changes_refuse(&applied, path, &(struct refused){row, size}), 0);
}

static const char *apply(size_t left, bool *ret_is_error)
{
    applied.journal = buf_size(&journal) ? (const void *)buf_bytes(&journal) : NULL;
    struct changes_end end = {.left = left};
    const char *made = text(changes_text_applied(&applied, &paths, &end, &out));
    *ret_is_error = end.is_error;
    return made;
}

static int end_apply(void **state)
{
    buf_done(&journal);
    changes_applied_done(&applied);
    journal = BUF_EMPTY;
    applied = (struct changes_applied){};
    return tear_down(state);
}

static void what_was_not_applied_has_its_reason(void **)
{
    bool is_error = false;
    item("a.py", APPLY_DONE, 0);
    item("b.py", APPLY_SAME, 0);
    item("c d", APPLY_CONFLICT, 0);
    item("e", APPLY_BUSY, 0);
    item("f", APPLY_ODD, 0);
    item("g", APPLY_FULL, 0);
    item("h", APPLY_FAILED, ENOSPC);
    item("i", APPLY_TO_DO, 0);
    refuse(".git/config", 4, ".git");
    refuse(".git/hooks/x", 4, ".git");
    refuse("s/x.pth", 7, "*.pth");
    assert_string_equal(
        apply(9, &is_error),
        "applied 2 of 11\n"
        "\"c d\": conflict: the user has changed this file too; the diff of list_changes is "
        "against "
        "theirs, and would take that back; discard this path to have the user's in the workspace, "
        "and make the change again there\n"
        "e: is being written; apply it when that has ended\n"
        "f: not a regular file, directory or symlink\n"
        "g: directory kept: it contains other files of the user's\n"
        "h: the disk is full\n"
        "i: not reached; call apply_changes again\n"
        ".git (2 changes): other programs run it automatically; name it in paths to apply "
        "it\n"
        "s/x.pth: other programs run it automatically; name it in paths to apply it\n"
        "[9 changes not applied]\n");
    assert_false(is_error);
    buf_clear(&out, SIZE_MAX);
    name("c d");
    (void)apply(9, &is_error);
    assert_true(is_error);
}

static void a_whole_apply_is_no_error(void **)
{
    bool is_error = true;
    item("a.py", APPLY_DONE, 0);
    assert_string_equal(apply(0, &is_error), "applied 1 of 1\n[no changes left]\n");
    assert_false(is_error);
}

static void what_was_not_requested_is_no_error(void **)
{
    bool is_error = true;
    name("a.py");
    item("a.py", APPLY_DONE, 0);
    assert_string_equal(apply(1, &is_error), "applied 1 of 1\n[1 change not applied]\n");
    assert_false(is_error);
}

static void a_path_in_git_does_not_suffice(void **)
{
    bool is_error = false;
    name("sub/.git/config");
    refuse("sub/.git/config", 8, ".git");
    assert_string_equal(apply(1, &is_error),
                        "applied 0 of 1\nsub/.git: is applied as a whole or not "
                        "at all; name sub/.git in paths\n"
                        "[1 change not applied]\n");
    assert_true(is_error);
}

static void named_paths_of_which_none_has_changes_are_an_error(void **)
{
    bool is_error = true;
    assert_string_equal(apply(0, &is_error), "[no changes]\n");
    assert_false(is_error);
    buf_clear(&out, SIZE_MAX);
    name("x.py");
    assert_string_equal(apply(0, &is_error), "no changes: x.py\n[no changes]\n");
    assert_true(is_error);
    buf_clear(&out, SIZE_MAX);
    item("a.py", APPLY_DONE, 0); /* all that can be done is */
    assert_string_equal(apply(0, &is_error),
                        "applied 1 of 1\nno changes: x.py\n[no changes left]\n");
    assert_false(is_error);
}

static void a_discard_says_what_stays(void **)
{
    struct changes_end end = {.left = 0};
    add("a", (struct change_record){.sign = '~', .mode = S_IFREG});
    struct changes_view seen = view();
    assert_string_equal(text(changes_text_discarded(&seen, &end, &out)),
                        "discarded 1 of 1\n[no changes left]\n");
    assert_false(end.is_error);
    buf_clear(&out, SIZE_MAX);
    add("b", (struct change_record){
                 .sign = '~', .mode = S_IFREG, .flags = CHANGE_NOT_DONE, .error = ENOSPC});
    name("b");
    name("c");
    seen = view();
    end.left = SIZE_MAX;
    assert_string_equal(text(changes_text_discarded(&seen, &end, &out)),
                        "discarded 1 of 2\nno changes: c\nb: No space left on device\n"
                        "[see list_changes for what is left]\n");
    assert_true(end.is_error);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define APPLY(name) cmocka_unit_test_setup_teardown(name, set_up, end_apply)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_change_has_its_line),
        TEST(directories_that_were_moved_have_a_line),
        TEST(what_needs_a_word_is_not_hidden_in_a_move),
        TEST(a_name_cannot_pose_as_text_of_the_server),
        TEST(paths_without_changes_are_named),
        TEST(without_changes_it_says_so),
        TEST(a_long_list_begins_with_what_the_user_has),
        TEST(a_patch_begins_with_what_the_user_has),
        TEST(a_long_list_ends_at_a_line),
        TEST(a_patch_has_whole_files_only),
        TEST(many_left_out_files_are_counted),
        APPLY(what_was_not_applied_has_its_reason),
        APPLY(a_whole_apply_is_no_error),
        APPLY(what_was_not_requested_is_no_error),
        APPLY(a_path_in_git_does_not_suffice),
        APPLY(named_paths_of_which_none_has_changes_are_an_error),
        APPLY(a_discard_says_what_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
