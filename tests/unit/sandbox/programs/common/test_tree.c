#include "sandbox/programs/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void expect_removed(const char *name)
{
    struct stat st;
    assert_true(tree_remove(temp.fd, name));
    assert_int_equal(fstatat(temp.fd, name, &st, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

static void a_missing_tree_counts_as_removed(void **)
{
    expect_removed("nothing");
}

static void files_and_directories_go(void **)
{
    temp_file(&temp, "tree/a/b/file", "x", 0644);
    temp_file(&temp, "tree/a/c/file", "x", 0);
    temp_file(&temp, "tree/.lifted-1", "x", 0644);
    temp_directory(&temp, "tree/.lifted-2");
    temp_file(&temp, "tree/.lifted-2/in", "x", 0644);
    assert_int_equal(mkfifoat(temp.fd, "tree/a/pipe", 0600), 0);
    expect_removed("tree");
    temp_file(&temp, "file", "x", 0644);
    expect_removed("file");
}

/* Neither the target of a symlink nor what is in it may be removed. */
static void a_symlink_is_removed_and_not_its_target(void **)
{
    temp_file(&temp, "other/file", "x", 0500);
    temp_link(&temp, "../other", "tree/link");
    temp_link(&temp, "../other/file", "tree/second");
    temp_link(&temp, "other", "link");
    expect_removed("tree");
    expect_removed("link");
    assert_int_equal(faccessat(temp.fd, "other/file", F_OK, 0), 0);
}

static void modes_do_not_prevent_removal(void **)
{
    temp_file(&temp, "tree/a/b/c/file", "x", 0);
    assert_int_equal(fchmodat(temp.fd, "tree/a/b/c", 0, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "tree/a/b", 0, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "tree/a", 0100, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "tree", 0, 0), 0);
    expect_removed("tree");
}

/* Deeper than PATH_MAX or the limit of descriptors. */
static void depth_does_not_prevent_removal(void **)
{
    enum { DEPTH = 3000 };
    temp_directory(&temp, "tree");
    int fd = openat(temp.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(fd, "directory", 0755), 0);
        int below = openat(fd, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        int file = openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(file >= 0);
        (void)close(file);
        (void)close(fd);
        fd = below;
    }
    (void)close(fd);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, before.rlim_max}), 0);
    expect_removed("tree");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* A process that makes and moves directories meanwhile can neither misdirect the removal nor delay
 * it after its exit. */
static void removal_copes_with_concurrent_writers(void **)
{
    temp_directory(&temp, "tree");
    temp_file(&temp, "canary/file", "x", 0644);
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned i = 0;; i++) {
            char from[64];
            char to[64];
            (void)snprintf(from, sizeof from, "tree/%u", i % 50);
            (void)snprintf(to, sizeof to, "tree/%u/%u", (i + 7) % 50, i % 3);
            (void)mkdirat(temp.fd, from, 0755);
            (void)renameat(temp.fd, from, temp.fd, to);
            (void)unlinkat(temp.fd, from, AT_REMOVEDIR);
            (void)symlinkat("../canary", temp.fd, from);
        }
    }
    assert_true(pid > 0);
    for (unsigned i = 0; i < 200; i++) {
        (void)tree_remove(temp.fd, "tree");
        (void)mkdirat(temp.fd, "tree", 0755);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    expect_removed("tree");
    assert_int_equal(faccessat(temp.fd, "canary/file", F_OK, 0), 0);
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_missing_tree_counts_as_removed),
        TREE_TEST(files_and_directories_go),
        TREE_TEST(a_symlink_is_removed_and_not_its_target),
        TREE_TEST(modes_do_not_prevent_removal),
        TREE_TEST(depth_does_not_prevent_removal),
        TREE_TEST(removal_copes_with_concurrent_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
