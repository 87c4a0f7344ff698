#include "sandbox/policy/landlock.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static void newer_versions_handle_more_and_drop_nothing(void **)
{
    assert_int_equal(landlock_handled_fs(0), 0);
    assert_int_equal(landlock_handled_fs(1), 0x1fff);
    assert_int_equal(landlock_handled_fs(LANDLOCK_ABI_LEAST), 0x3fff);
    assert_int_equal(landlock_handled_fs(5), 0xffff);
    for (int abi = 1; abi < 20; abi++) {
        uint64_t older = landlock_handled_fs(abi - 1);
        assert_int_equal(landlock_handled_fs(abi) & older, older);
    }
}

/* The errno of making a ruleset with these rights, or 0. */
static int ruleset(uint64_t handled_fs)
{
    int fd = (int)syscall(SYS_landlock_create_ruleset, &handled_fs, sizeof handled_fs, 0);
    int error = fd < 0 ? errno : 0;
    (void)close(fd);
    return error;
}

/* Code would keep an unhandled right everywhere. */
static void each_file_right_of_this_kernel_is_handled(void **)
{
    int abi = landlock_abi();
    if (abi == 0) {
        unit_skip("landlock", "this kernel has none");
    }
    uint64_t handled = landlock_handled_fs(abi);
    assert_int_equal(ruleset(handled), 0);
    assert_int_equal(ruleset(handled + 1), EINVAL);
}

static void refused_calls_count_as_no_landlock(void **)
{
    static const int errors[] = {ENOSYS, EPERM, EOPNOTSUPP};
    for (unsigned i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(!unit_deny(SYS_landlock_create_ruleset, errors[i]) || landlock_abi() != 0 ||
                  landlock_confine(NULL, 0, 0) != -EOPNOTSUPP);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static void a_symlink_in_place_of_a_directory_is_not_followed(void **)
{
    struct temp temp;
    char directory[PATH_MAX];
    char link[PATH_MAX];
    temp_make(&temp);
    temp_directory(&temp, "directory/below");
    assert_int_equal(symlinkat("directory", temp.fd, "link"), 0);
    const struct landlock_rule straight = {temp_path(&temp, "directory/below", directory),
                                           LANDLOCK_RULE_STRAIGHT};
    struct landlock_rule led = {temp_path(&temp, "link/below", link), LANDLOCK_RULE_STRAIGHT};
    int fd = landlock_open(&straight);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(landlock_open(&led), -ELOOP);
    led.allowed = LANDLOCK_RULE_READ;
    fd = landlock_open(&led);
    assert_true(fd >= 0);
    (void)close(fd);
    temp_remove(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_versions_handle_more_and_drop_nothing),
        cmocka_unit_test(each_file_right_of_this_kernel_is_handled),
        cmocka_unit_test(refused_calls_count_as_no_landlock),
        cmocka_unit_test(a_symlink_in_place_of_a_directory_is_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
