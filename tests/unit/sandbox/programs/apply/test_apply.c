/* What becomes of each kind of change. */
#include "tests/unit/sandbox/programs/apply/applying.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static void changes_are_applied(void **)
{
    lower("changed", "old", 0644);
    lower("sub/deleted", "old", 0644);
    lower("mode", "same", 0644);
    upper("changed", "newer", 0600);
    upper("mode", "same", 0755);
    upper("added/below/file", "new", 0640);
    temp_link(&temp, "../outside", "upper/link");
    temp_directory(&temp, "upper/sub");
    whiteout("sub/deleted");
    assert_int_equal(fchmodat(temp.fd, "upper/added", 0711, 0), 0);
    add("added/below/file");
    add("changed");
    add("link");
    add("mode");
    add("sub/deleted");
    run();
    expect("added/below/file", APPLY_DONE);
    expect("changed", APPLY_DONE);
    expect("link", APPLY_DONE);
    expect("mode", APPLY_DONE);
    expect("sub/deleted", APPLY_DONE);
    assert_true(has("dir", "changed", "newer"));
    assert_int_equal(mode_of("changed"), 0600);
    assert_int_equal(mode_of("mode"), 0755);
    assert_true(has("dir", "added/below/file", "new"));
    assert_int_equal(mode_of("added"), 0711);
    assert_int_equal(mode_of("added/below"), 0755);
    assert_int_equal(mode_of("added/below/file"), 0640);
    assert_true(links_to("link", "../outside"));
    assert_true(is_gone("sub/deleted"));
    assert_false(is_gone("sub"));
}

static void directories_get_their_mode_and_keep_their_files(void **)
{
    lower("both/user", "u", 0644);
    temp_directory(&temp, "upper/both");
    temp_directory(&temp, "upper/empty");
    temp_directory(&temp, "upper/sealed");
    assert_int_equal(fchmodat(temp.fd, "upper/both", 0750, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/sealed", 0, 0), 0);
    add("both");
    add("empty");
    add("sealed");
    lower("both/later", "u", 0644); /* a directory's times tell nothing of its own */
    run();
    expect("both", APPLY_DONE);
    expect("empty", APPLY_DONE);
    expect("sealed", APPLY_DONE);
    assert_int_equal(mode_of("both"), 0750);
    assert_int_equal(mode_of("sealed"), 0);
    assert_true(has("dir", "both/later", "u"));
}

static void files_come_into_directories_that_are_sealed(void **)
{
    lower("old/deleted", "old", 0644);
    upper("new/below/file", "new", 0644);
    upper("old/file", "new", 0644);
    upper("unnamed/file", "new", 0644);
    whiteout("old/deleted");
    assert_int_equal(fchmodat(temp.fd, "upper/new/below", 0555, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/new", 0500, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/old", 0555, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/unnamed", 0555, 0), 0);
    add("new");
    add("new/below");
    add("new/below/file");
    add("old");
    add("old/deleted");
    add("old/file");
    add("unnamed/file");
    run();
    expect("new", APPLY_DONE);
    expect("new/below", APPLY_DONE);
    expect("new/below/file", APPLY_DONE);
    expect("old", APPLY_DONE);
    expect("old/deleted", APPLY_DONE);
    expect("old/file", APPLY_DONE);
    expect("unnamed/file", APPLY_DONE);
    assert_int_equal(mode_of("new"), 0500);
    assert_int_equal(mode_of("new/below"), 0555);
    assert_int_equal(mode_of("old"), 0555);
    static const char *const opened[] = {"dir/new",      "dir/new/below",   "dir/old",
                                         "upper/new",    "upper/new/below", "upper/old",
                                         "upper/unnamed"};
    for (unsigned i = 0; i < sizeof opened / sizeof *opened; i++) {
        assert_int_equal(fchmodat(temp.fd, opened[i], 0755, 0), 0);
    }
}

static void what_the_user_has_changed_is_a_conflict(void **)
{
    static const char *const names[] = {"deleted", "edited",   "given/a/file", "made",
                                        "removed", "replaced", "retyped"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], "made") != 0) {
            lower(names[i], "old", 0644);
        }
        upper(names[i], "ours", 0644);
    }
    assert_int_equal(unlinkat(temp.fd, "upper/deleted", 0), 0);
    whiteout("deleted");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("deleted", "user's", 0644);
    lower("edited", "use", 0644); /* of the same size */
    lower("made", "user's", 0644);
    lower("other", "old", 0644);
    assert_int_equal(unlinkat(temp.fd, "dir/removed", 0), 0);
    assert_int_equal(renameat(temp.fd, "dir/other", temp.fd, "dir/replaced"), 0);
    assert_int_equal(unlinkat(temp.fd, "dir/retyped", 0), 0);
    temp_link(&temp, "edited", "dir/retyped");
    assert_int_equal(renameat(temp.fd, "dir/given/a", temp.fd, "dir/given/b"), 0);
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], APPLY_CONFLICT);
    }
    assert_true(has("dir", "deleted", "user's"));
    assert_true(has("dir", "edited", "use"));
    assert_true(has("dir", "made", "user's"));
    assert_true(is_gone("removed"));
    assert_true(has("dir", "replaced", "old"));
    assert_true(links_to("retyped", "edited"));
    assert_true(is_gone("given/a"));
}

static void an_equal_state_is_no_conflict(void **)
{
    static const char *const names[] = {"deleted", "directory", "link", "new", "old"};
    lower("deleted", "old", 0644);
    lower("old", "old", 0644);
    upper("new", "same", 0755);
    upper("old", "same", 0644);
    temp_directory(&temp, "upper/directory");
    temp_link(&temp, "to", "upper/link");
    whiteout("deleted");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    assert_int_equal(unlinkat(temp.fd, "dir/deleted", 0), 0);
    lower("new", "same", 0755);
    lower("old", "same", 0644);
    temp_directory(&temp, "dir/directory");
    temp_link(&temp, "to", "dir/link");
    const struct apply_facts kept = facts("dir", "old");
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], APPLY_SAME);
    }
    const struct apply_facts now = facts("dir", "old");
    assert_true(apply_facts_equal(&kept, &now));
}

static void what_differs_a_little_is_not_the_same(void **)
{
    upper("byte", "samf", 0644);
    upper("long", "same and more", 0644);
    upper("mode", "same", 0644);
    temp_link(&temp, "to", "upper/text");
    temp_link(&temp, "same", "upper/type");
    add("byte");
    add("long");
    add("mode");
    add("text");
    add("type");
    lower("byte", "same", 0644);
    lower("long", "same", 0644);
    lower("mode", "same", 0600);
    temp_link(&temp, "tx", "dir/text");
    lower("type", "same", 0644);
    run();
    expect("byte", APPLY_CONFLICT);
    expect("long", APPLY_CONFLICT);
    expect("mode", APPLY_CONFLICT);
    expect("text", APPLY_CONFLICT);
    expect("type", APPLY_CONFLICT);
}

static void a_source_that_has_changed_is_busy(void **)
{
    lower("deleted", "old", 0644);
    lower("written", "old", 0644);
    upper("gone", "new", 0644);
    upper("linked", "new", 0644);
    upper("parent/file", "new", 0644);
    upper("written", "new", 0644);
    whiteout("deleted");
    add("deleted");
    add("gone");
    add("linked");
    add("parent/file");
    add("written");
    assert_int_equal(unlinkat(temp.fd, "upper/deleted", 0), 0);
    upper("deleted", "back", 0644);
    assert_int_equal(unlinkat(temp.fd, "upper/gone", 0), 0);
    assert_int_equal(unlinkat(temp.fd, "upper/linked", 0), 0);
    temp_link(&temp, "written", "upper/linked");
    assert_int_equal(renameat(temp.fd, "upper/parent", temp.fd, "upper/other"), 0);
    temp_link(&temp, "other", "upper/parent");
    upper("written", "noo", 0644);
    run();
    expect("deleted", APPLY_BUSY);
    expect("gone", APPLY_BUSY);
    expect("linked", APPLY_BUSY);
    expect("parent/file", APPLY_BUSY);
    expect("written", APPLY_BUSY);
    assert_true(has("dir", "deleted", "old"));
    assert_true(has("dir", "written", "old"));
    assert_true(is_gone("gone"));
    assert_true(is_gone("linked"));
}

static void odd_files_are_named(void **)
{
    upper("above", "new", 0644);
    assert_int_equal(mkfifoat(temp.fd, "dir/below", 0600), 0);
    assert_int_equal(mkfifoat(temp.fd, "upper/fifo", 0600), 0);
    assert_int_equal(mkfifoat(temp.fd, "dir/above", 0600), 0);
    whiteout("below");
    add("above");
    add("below");
    add("fifo");
    run();
    expect("above", APPLY_ODD);
    expect("below", APPLY_ODD);
    expect("fifo", APPLY_ODD);
    assert_true(S_ISFIFO(facts("dir", "above").mode));
    assert_true(S_ISFIFO(facts("dir", "below").mode));
    assert_true(is_gone("fifo"));
}

static void trees_are_removed_unless_the_user_has_put_something_in(void **)
{
    static const char *const names[] = {"full",  "full/a",  "full/b",   "full/b/c",
                                        "whole", "whole/a", "whole/a/b"};
    lower("full/a", "1", 0644);
    lower("full/b/c", "1", 0644);
    lower("whole/a/b", "1", 0644);
    whiteout("full");
    whiteout("whole");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("full/b/user", "u", 0644);
    run();
    expect("full", APPLY_FULL);
    expect("full/a", APPLY_DONE);
    expect("full/b", APPLY_FULL);
    expect("full/b/c", APPLY_DONE);
    expect("whole", APPLY_DONE);
    assert_true(has("dir", "full/b/user", "u"));
    assert_true(is_gone("whole"));
}

static void types_change(void **)
{
    static const char *const names[] = {"d1",   "d1/a",   "d1/b", "d1/b/c", "d2",
                                        "d2/a", "f1",     "f1/a", "f1/a/b", "f2",
                                        "full", "full/x", "l1",   "l1/a"};
    lower("d1/a", "1", 0644);
    lower("d1/b/c", "1", 0644);
    lower("d2/a", "1", 0644);
    lower("f1", "1", 0644);
    lower("f2", "1", 0644);
    lower("full/x", "1", 0644);
    temp_link(&temp, "f1", "dir/l1");
    upper("d1", "file", 0644);
    temp_link(&temp, "nowhere", "upper/d2");
    upper("f1/a/b", "new", 0644);
    temp_link(&temp, "nowhere", "upper/f2");
    upper("full", "file", 0644);
    upper("l1/a", "new", 0644);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        add(names[i]);
    }
    lower("full/user", "u", 0644);
    run();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i], strcmp(names[i], "full") == 0     ? APPLY_FULL
                         : strcmp(names[i], "full/x") == 0 ? APPLY_LAST
                                                           : APPLY_DONE);
    }
    assert_true(has("dir", "d1", "file"));
    assert_true(links_to("d2", "nowhere"));
    assert_true(has("dir", "f1/a/b", "new"));
    assert_true(links_to("f2", "nowhere"));
    assert_true(has("dir", "full/user", "u"));
    assert_true(has("dir", "l1/a", "new"));
}

static void no_symlink_is_followed(void **)
{
    temp_file(&temp, "outside/file", "theirs", 0644);
    temp_link(&temp, "../outside", "dir/link");
    temp_link(&temp, "../outside/file", "dir/own");
    temp_directory(&temp, "upper/link");
    upper("link/file", "ours", 0644);
    upper("link/new", "ours", 0644);
    upper("own", "ours", 0644);
    whiteout("link/deleted");
    add("link/deleted");
    add("link/file");
    add("link/new");
    add("own");
    temp_file(&temp, "outside/deleted", "theirs", 0644);
    run();
    expect("link/deleted", APPLY_CONFLICT);
    expect("link/file", APPLY_CONFLICT);
    expect("link/new", APPLY_CONFLICT);
    expect("own", APPLY_DONE);
    assert_true(has("outside", "file", "theirs"));
    assert_true(has("outside", "deleted", "theirs"));
    assert_true(has("dir", "own", "ours"));
    assert_int_equal(faccessat(temp.fd, "outside/new", F_OK, 0), -1);
}

static void other_names_of_a_file_keep_its_content(void **)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < 4; i++) {
        char other[8];
        lower(names[i], "old", 0644);
        (void)snprintf(other, sizeof other, "dir/%s2", names[i]);
        assert_int_equal(linkat(temp.fd, in("dir", names[i]), temp.fd, other, 0), 0);
    }
    upper("a", "new", 0644);
    upper("b", "new", 0644);
    upper("b2", "new too", 0644);
    whiteout("c");
    whiteout("c2");
    upper("d", "newer", 0644);
    upper("d2", "newer", 0644);
    add("a");
    add("b");
    add("b2");
    add("c");
    add("c2");
    add("d");
    add("d2");
    lower("d", "use", 0644); /* through one name, both are the user's */
    run();
    expect("a", APPLY_DONE);
    expect("b", APPLY_DONE);
    expect("b2", APPLY_DONE);
    expect("c", APPLY_DONE);
    expect("c2", APPLY_DONE);
    expect("d", APPLY_CONFLICT);
    expect("d2", APPLY_CONFLICT);
    assert_true(has("dir", "a2", "old"));
    assert_true(has("dir", "b2", "new too"));
    assert_true(has("dir", "d2", "use"));
}

static void set_id_bits_and_attributes_stay_behind(void **)
{
    char value[64];
    char path[PATH_MAX];
    lower("old", "old", 0644);
    upper("new", "new", 0644);
    upper("old", "new", 0644);
    (void)setxattr(temp_path(&temp, "upper/new", path), "user.overlay.origin", "y", 1, 0);
    (void)setxattr(path, "user.other", "y", 1, 0);
    assert_int_equal(fchmodat(temp.fd, "upper/new", 06755, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "upper/old", 07711, 0), 0);
    add("new");
    add("old");
    run();
    expect("new", APPLY_DONE);
    expect("old", APPLY_DONE);
    assert_int_equal(mode_of("new"), 0755);
    assert_int_equal(mode_of("old"), 0711);
    assert_int_equal(listxattr(temp_path(&temp, "dir/new", path), value, sizeof value), 0);
}

static void any_name_will_do(void **)
{
    static char deep[PATH_MAX];
    char name[256];
    size_t most = PATH_MAX - strlen(temp.path) - sizeof "/upper/";
    memset(name, '\n', 255);
    name[255] = '\0';
    for (size_t i = 0; i + 2 < most; i += 2) {
        memcpy(deep + i, "d/", 3);
    }
    deep[strlen(deep) - 1] = 'f';
    upper(name, "new", 0644);
    upper(" -rf \"'\xff", "new", 0644);
    int at = openat(temp.fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i + 2 < strlen(deep); i += 2) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    int fd = openat(at, deep + strlen(deep) - 2, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    (void)close(at);
    deep[strlen(deep)] = '\0';
    add(name);
    add(" -rf \"'\xff");
    add(deep);
    run();
    expect(name, APPLY_DONE);
    expect(" -rf \"'\xff", APPLY_DONE);
    expect(deep, APPLY_DONE);
    assert_true(has("dir", name, "new"));
}

static void holes_stay_cheap(void **)
{
    struct stat st;
    upper("sparse", "begin", 0644);
    int fd = openat(temp.fd, "upper/sparse", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "end", 3, (off_t)1 << 40), 3);
    (void)close(fd);
    add("sparse");
    run();
    expect("sparse", APPLY_DONE);
    assert_int_equal(fstatat(temp.fd, "dir/sparse", &st, 0), 0);
    assert_true(st.st_size == ((off_t)1 << 40) + 3);
    assert_true(st.st_blocks < 4096);
    begin();
    add("sparse");
    run();
    expect("sparse", APPLY_SAME);
}

static void large_files_are_copied_whole(void **)
{
    enum { WORDS = 1 << 18 };
    static uint32_t words[WORDS];
    static uint32_t copy[WORDS];
    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = i * 2654435761U;
    }
    upper("large", "", 0644);
    int fd = openat(temp.fd, "upper/large", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, words, sizeof words), 0);
    (void)close(fd);
    add("large");
    run();
    expect("large", APPLY_DONE);
    fd = openat(temp.fd, "dir/large", O_RDWR | O_CLOEXEC);
    assert_int_equal(fd_pread_all(fd, copy, sizeof copy, 0), sizeof copy);
    assert_memory_equal(words, copy, sizeof copy);
    begin();
    assert_int_equal(pwrite(fd, "x", 1, sizeof copy - 1), 1);
    (void)close(fd);
    add("large");
    run();
    expect("large", APPLY_DONE); /* the last byte differed */
}

static void many_items_are_done(void **)
{
    enum { MANY = 2000 };
    char path[64];
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "many/%02u/%05u", i / 200, i);
        upper(path, path, 0644);
        add(path);
    }
    uint64_t began_ns = clock_now_ns();
    run();
    print_message("# %u files in %u ms\n", (unsigned)MANY,
                  (unsigned)((clock_now_ns() - began_ns) / CLOCK_NS_PER_MS));
    const struct apply_item *item = NULL;
    while ((item = apply_journal_next(mapped, item))) {
        assert_int_equal(item->status, APPLY_DONE);
        assert_true(has("dir", item->path, item->path));
    }
}

static void a_damaged_journal_is_refused(void **)
{
    upper("new", "new", 0644);
    add("new");
    map_journal();
    mapped->count++;
    assert_false(run_again());
    mapped->count--;
    assert_true(run_again());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(changes_are_applied),
        EACH(directories_get_their_mode_and_keep_their_files),
        EACH(files_come_into_directories_that_are_sealed),
        EACH(what_the_user_has_changed_is_a_conflict),
        EACH(an_equal_state_is_no_conflict),
        EACH(what_differs_a_little_is_not_the_same),
        EACH(a_source_that_has_changed_is_busy),
        EACH(odd_files_are_named),
        EACH(trees_are_removed_unless_the_user_has_put_something_in),
        EACH(types_change),
        EACH(no_symlink_is_followed),
        EACH(other_names_of_a_file_keep_its_content),
        EACH(set_id_bits_and_attributes_stay_behind),
        EACH(any_name_will_do),
        cmocka_unit_test_setup_teardown(holes_stay_cheap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_files_are_copied_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_items_are_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_journal_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
