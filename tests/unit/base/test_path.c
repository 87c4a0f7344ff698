#include "base/path.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static bool is_one(const struct temp *temp)
{
    return git_is_directory_at(temp->fd);
}

static void a_directory_of_git_has_a_head_objects_and_refs(void **)
{
    struct temp temp;
    temp_make(&temp);
    temp_directory(&temp, "refs");
    temp_directory(&temp, "objects");
    assert_false(is_one(&temp));
    temp_link(&temp, "nowhere", "HEAD");
    assert_true(is_one(&temp));
    assert_int_equal(unlinkat(temp.fd, "objects", AT_REMOVEDIR), 0);
    assert_false(is_one(&temp));
    temp_remove(&temp);
}

static void a_work_trees_has_a_head_and_a_commondir(void **)
{
    struct temp temp;
    temp_make(&temp);
    temp_file(&temp, "commondir", "../..", 0644);
    assert_false(is_one(&temp));
    temp_file(&temp, "HEAD", "ref: refs/heads/main", 0644);
    assert_true(is_one(&temp));
    temp_remove(&temp);
}

static void no_directory_is_none(void **)
{
    assert_false(git_is_directory_at(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_of_git_has_a_head_objects_and_refs),
        cmocka_unit_test(a_work_trees_has_a_head_and_a_commondir),
        cmocka_unit_test(no_directory_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
