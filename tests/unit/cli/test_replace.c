#include "cli/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static int set_up(void **state)
{
    struct temp *temp = calloc(1, sizeof *temp);
    temp_make(temp);
    *state = temp;
    return 0;
}

static int tear_down(void **state)
{
    temp_remove(*state);
    free(*state);
    return 0;
}

static void expect_text(const struct temp *temp, const char *name, const char *wanted)
{
    char text[64];
    assert_true(fd_read_text_at(temp->fd, name, text, sizeof text) >= 0);
    assert_string_equal(text, wanted);
}

static int replace(const struct temp *temp, const char *name, const char *text)
{
    OWNED(replace_done) struct replace file = REPLACE_NONE;
    char path[PATH_MAX];
    int r = replace_read(&file, temp_path(temp, name, path), NULL);
    return r ? r : replace_write(&file, text, strlen(text), NULL);
}

static void directories_that_are_missing_are_made(void **state)
{
    const struct temp *temp = *state;
    struct stat stat = {};
    assert_int_equal(replace(temp, "a/b/c", "new"), 0);
    expect_text(temp, "a/b/c", "new");
    assert_int_equal(fstatat(temp->fd, "a/b/c", &stat, 0), 0);
    assert_int_equal(stat.st_mode & 0777, 0600);
}

static void attributes_stay(void **state)
{
    const struct temp *temp = *state;
    char path[PATH_MAX];
    char value[8];
    temp_file(temp, "f", "old", 0644);
    if (setxattr(temp_path(temp, "f", path), "user.note", "mine", 4, 0) < 0) {
        skip();
    }
    assert_int_equal(replace(temp, "f", "new"), 0);
    expect_text(temp, "f", "new");
    assert_int_equal(getxattr(path, "user.note", value, sizeof value), 4);
    assert_int_equal(getxattr(temp_path(temp, "f" REPLACE_BACKUP, path), "user.note", value, 8), 4);
}

static void what_was_there_is_kept_with_its_mode(void **state)
{
    const struct temp *temp = *state;
    struct stat stat = {};
    temp_file(temp, "f", "old", 0644);
    temp_file(temp, "f.bak", "of the user", 0644);
    assert_int_equal(replace(temp, "f", "newer"), 0);
    expect_text(temp, "f" REPLACE_BACKUP, "old");
    assert_int_equal(replace(temp, "f", "newest"), 0);
    expect_text(temp, "f", "newest");
    expect_text(temp, "f" REPLACE_BACKUP, "newer");
    expect_text(temp, "f.bak", "of the user");
    assert_int_equal(fstatat(temp->fd, "f", &stat, 0), 0);
    assert_int_equal(stat.st_mode & 0777, 0644);
}

static void the_owner_of_a_file_that_root_replaces_stays(void **state)
{
    const struct temp *temp = *state;
    struct stat stat = {};
    temp_file(temp, "f", "old", 0600);
    if (fchownat(temp->fd, "f", 12345, 12345, 0) < 0) {
        unit_skip("root", "files cannot be given away here");
        return;
    }
    assert_int_equal(replace(temp, "f", "new"), 0);
    assert_int_equal(fstatat(temp->fd, "f", &stat, 0), 0);
    assert_int_equal(stat.st_uid, 12345);
    assert_int_equal(fstatat(temp->fd, "f" REPLACE_BACKUP, &stat, 0), 0);
    assert_int_equal(stat.st_uid, 12345);
}

static void a_file_changed_by_another_program_is_left(void **state)
{
    const struct temp *temp = *state;
    OWNED(replace_done) struct replace changed = REPLACE_NONE;
    OWNED(replace_done) struct replace appeared = REPLACE_NONE;
    char path[PATH_MAX];
    temp_file(temp, "f", "old", 0600);
    assert_int_equal(replace_read(&changed, temp_path(temp, "f", path), NULL), 0);
    assert_int_equal(replace_read(&appeared, temp_path(temp, "d/g", path), NULL), 0);
    temp_file(temp, "f", "other", 0600);
    temp_file(temp, "d/g", "other", 0600);
    assert_int_equal(replace_write(&changed, "new", 3, NULL), -EBUSY);
    assert_int_equal(replace_write(&appeared, "new", 3, NULL), -EBUSY);
    expect_text(temp, "f", "other");
    expect_text(temp, "d/g", "other");
    assert_int_equal(faccessat(temp->fd, "f" REPLACE_BACKUP, F_OK, 0), -1);
}

static void links_are_followed_and_other_kinds_of_file_refused(void **state)
{
    const struct temp *temp = *state;
    struct stat stat = {};
    temp_file(temp, "real", "old", 0600);
    temp_link(temp, "real", "link");
    assert_int_equal(replace(temp, "link", "new"), 0);
    expect_text(temp, "real", "new");
    assert_int_equal(fstatat(temp->fd, "link", &stat, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(stat.st_mode));
    temp_link(temp, "nowhere", "dangling");
    assert_int_equal(replace(temp, "dangling", "new"), -ENOENT);
    assert_int_equal(mkfifoat(temp->fd, "fifo", 0600), 0);
    assert_int_equal(replace(temp, "fifo", "new"), -EINVAL);
    temp_directory(temp, "directory");
    assert_int_equal(replace(temp, "directory", "new"), -EINVAL);
}

static void files_that_a_new_one_cannot_stand_for_are_refused(void **state)
{
    const struct temp *temp = *state;
    temp_file(temp, "f", "old", 0444);
    assert_int_equal(replace(temp, "f", "new"), -EACCES);
    expect_text(temp, "f", "old");
    assert_int_equal(faccessat(temp->fd, "f" REPLACE_BACKUP, F_OK, 0), -1);
    if (geteuid() != 0) {
        OWNED(replace_done) struct replace file = REPLACE_NONE;
        assert_int_equal(replace_read(&file, "/etc/passwd", NULL), -EPERM);
    }
}

static void a_file_in_the_way_is_left(void **state)
{
    const struct temp *temp = *state;
    char name[64];
    (void)snprintf(name, sizeof name, "f.new-%d", (int)getpid());
    temp_file(temp, name, "another's", 0600);
    temp_file(temp, "f", "old", 0600);
    assert_int_equal(replace(temp, "f", "new"), -EEXIST);
    expect_text(temp, name, "another's");
    expect_text(temp, "f", "old");
    assert_int_equal(faccessat(temp->fd, "f" REPLACE_BACKUP, F_OK, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(directories_that_are_missing_are_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attributes_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_there_is_kept_with_its_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_owner_of_a_file_that_root_replaces_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_changed_by_another_program_is_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(files_that_a_new_one_cannot_stand_for_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_in_the_way_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_are_followed_and_other_kinds_of_file_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
