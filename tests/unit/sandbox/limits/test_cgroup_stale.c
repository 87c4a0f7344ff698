#include "sandbox/limits/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static time_t later_s;

/* In place of the C library's: directories cannot be given an age. */
time_t time(time_t *)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec + later_s;
}

static int set_up(void **)
{
    temp_make(&temp);
    later_s = 60;
    return 0;
}

static int tear_down(void **)
{
    temp_remove(&temp);
    return 0;
}

static int make_group(const char *name)
{
    assert_int_equal(mkdirat(temp.fd, name, 0755), 0);
    return openat(temp.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* 1: the number of a server that is the first process of its pid namespace. */
static void a_group_is_stale_when_nobody_holds_it(void **)
{
    int held = make_group("sandpiper-1-12345678");
    int other = make_group("sandpiper-7-12345678");
    cgroup_hold(held);
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ true), 1);
    assert_int_equal(faccessat(temp.fd, "sandpiper-1-12345678", F_OK, 0), 0);
    assert_int_not_equal(faccessat(temp.fd, "sandpiper-7-12345678", F_OK, 0), 0);
    (void)close(held);
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ false), 1);
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ true), 1);
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ true), 0);
    (void)close(other);
}

static void a_young_group_and_what_others_made_are_not_stale(void **)
{
    const int fds[] = {make_group("sandpiper-1-1"), make_group("sandpiper-x"),
                       make_group("other-1-1")};
    later_s = 0;
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ true), 0);
    later_s = 60;
    assert_int_equal(cgroup_sweep_stale(temp.fd, /* remove= */ true), 1);
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        (void)close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_is_stale_when_nobody_holds_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_young_group_and_what_others_made_are_not_stale, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
