#include "sandbox/limits/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct cgroup cgroup;

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

/* A cgroup of plain files: tests can read what was written, and write what the kernel would
 * report. */
static void make_group(bool unified, unsigned directories)
{
    cgroup = (struct cgroup){.name = "group", .directory_count = directories, .unified = unified};
    for (unsigned i = 0; i < directories; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%u/group/cgroup.procs", i);
        temp_file(&temp, name, "", 0644);
        (void)snprintf(name, sizeof name, "%u", i);
        cgroup.parent_fds[i] = openat(temp.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cgroup.fds[i] = openat(cgroup.parent_fds[i], "group", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(cgroup.fds[i] >= 0);
    }
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        cgroup.controller_fd[i] = -1;
    }
    cgroup.controller_fd[CGROUP_MEMORY] = cgroup.fds[0];
}

static void expect_text(int dir_fd, const char *name, const char *expected)
{
    char text[256];
    assert_true(fd_read_text_at(dir_fd, name, text, sizeof text) >= 0);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, expected);
}

static void process_joins_each_directory(void **)
{
    make_group(false, 2);
    assert_int_equal(cgroup_attach(&cgroup, 4711), 0);
    expect_text(temp.fd, "0/group/cgroup.procs", "4711");
    expect_text(temp.fd, "1/group/cgroup.procs", "4711");
    assert_int_equal(unlinkat(temp.fd, "1/group/cgroup.procs", 0), 0);
    assert_true(cgroup_attach(&cgroup, 4711) < 0);
    cgroup_remove(&cgroup);
}

static void kill_for_memory_is_reported_once(void **)
{
    for (unsigned version = 1; version <= 2; version++) {
        const char *file = version == 2 ? "0/group/memory.events" : "0/group/memory.oom_control";
        make_group(version == 2, 1);
        assert_false(cgroup_oom_happened(&cgroup));
        temp_file(&temp, file, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", 0644);
        assert_false(cgroup_oom_happened(&cgroup));
        temp_file(&temp, file, "low 0\noom 3\noom_kill 2\n", 0644);
        assert_true(cgroup_oom_happened(&cgroup));
        assert_false(cgroup_oom_happened(&cgroup));
        temp_file(&temp, file, "low 0\noom 4\noom_kill 3\n", 0644);
        assert_true(cgroup_oom_happened(&cgroup));
        cgroup_remove(&cgroup);
        assert_int_equal(unlinkat(temp.fd, file, 0), 0);
    }
}

static void peak_is_read_and_unknown_is_zero(void **)
{
    make_group(true, 1);
    assert_int_equal(cgroup_memory_peak(&cgroup), 0);
    temp_file(&temp, "0/group/memory.peak", "5368709120\n", 0644);
    assert_true(cgroup_memory_peak(&cgroup) == 5368709120);
    cgroup.unified = false;
    assert_int_equal(cgroup_memory_peak(&cgroup), 0);
    temp_file(&temp, "0/group/memory.max_usage_in_bytes", "4096\n", 0644);
    assert_int_equal(cgroup_memory_peak(&cgroup), 4096);
    cgroup.controller_fd[CGROUP_MEMORY] = -1;
    assert_int_equal(cgroup_memory_peak(&cgroup), 0);
    assert_false(cgroup_has(&cgroup, CGROUP_MEMORY));
    cgroup_remove(&cgroup);
}

static void removed_cgroup_is_empty_and_can_be_removed_again(void **)
{
    make_group(false, 2);
    assert_int_equal(unlinkat(temp.fd, "0/group/cgroup.procs", 0), 0);
    assert_int_equal(unlinkat(temp.fd, "1/group/cgroup.procs", 0), 0);
    assert_true(cgroup_has(&cgroup, CGROUP_MEMORY));
    cgroup_remove(&cgroup);
    assert_int_equal(faccessat(temp.fd, "0/group", F_OK, 0), -1);
    assert_int_equal(faccessat(temp.fd, "1/group", F_OK, 0), -1);
    assert_false(cgroup_has(&cgroup, CGROUP_MEMORY));
    cgroup_remove(&cgroup);
}

static void expect_moves_itself(const int tasks[CGROUP_DIRECTORIES])
{
    pid_t pid = fork();
    if (pid == 0) {
        char member[32];
        for (unsigned i = 0; i < CGROUP_DIRECTORIES; i++) {
            if (tasks[i] >= 0 && write(tasks[i], "0", 1) != 1) {
                _exit(1);
            }
        }
        (void)snprintf(member, sizeof member, "%d", (int)getpid());
        expect_text(cgroup.controller_fd[CGROUP_PIDS], "tasks", member);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* In the real hierarchy, as far as this user may: a missing controller must have a reason. */
static void made_cgroup_has_its_limits_and_is_removed(void **)
{
    const struct box_limits limits = {.memory_bytes = 64 << 20, .pids = 17, .cpu_milli = 500};
    cgroup_find(&cgroup);
    cgroup_make(&cgroup, &limits);
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        assert_true(cgroup_has(&cgroup, (enum cgroup_controller)i) || cgroup.why[i][0]);
    }
    if (!cgroup_has(&cgroup, CGROUP_MEMORY) || !cgroup_has(&cgroup, CGROUP_PIDS)) {
        cgroup_remove(&cgroup);
        unit_skip("cgroup", cgroup.why[CGROUP_MEMORY]);
    }
    expect_text(cgroup.controller_fd[CGROUP_PIDS], "pids.max", "25");
    expect_text(cgroup.controller_fd[CGROUP_MEMORY],
                cgroup.unified ? "memory.max" : "memory.limit_in_bytes", "67108864");
    int tasks[CGROUP_DIRECTORIES];
    assert_int_equal(cgroup_open_tasks(&cgroup, tasks), !cgroup.unified);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    char member[32];
    (void)snprintf(member, sizeof member, "%d", (int)pid);
    int attached = cgroup_attach(&cgroup, pid);
    expect_text(cgroup.controller_fd[CGROUP_PIDS], "cgroup.procs", member);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(attached, 0);
    if (!cgroup.unified) {
        expect_moves_itself(tasks);
    }
    for (unsigned i = 0; i < CGROUP_DIRECTORIES; i++) {
        own_close(&tasks[i]);
    }
    assert_false(cgroup_oom_happened(&cgroup));
    int parent = fcntl(cgroup.parent_fds[0], F_DUPFD_CLOEXEC, 3);
    char name[sizeof cgroup.name];
    (void)snprintf(name, sizeof name, "%s", cgroup.name);
    assert_int_equal(faccessat(parent, name, F_OK, 0), 0);
    cgroup_remove(&cgroup);
    assert_int_equal(faccessat(parent, name, F_OK, 0), -1);
    (void)close(parent);
}

/* The limit of the server's cgroup or of one above it; in a container only the mount's root is
 * there. */
static void the_lowest_enclosing_limit_is_found(void **)
{
    static struct cgroup_place place;
    char mount[PATH_MAX];
    place = (struct cgroup_place){};
    assert_int_equal(cgroup_place_memory(&place), 0);
    (void)snprintf(place.v2_mount, sizeof place.v2_mount, "%s", temp_path(&temp, "v2", mount));
    (void)snprintf(place.v2_path, sizeof place.v2_path, "/a/b");
    temp_file(&temp, "v2/a/b/memory.max", "max\n", 0644);
    assert_int_equal(cgroup_place_memory(&place), 0);
    temp_file(&temp, "v2/a/memory.max", "1073741824\n", 0644);
    assert_int_equal(cgroup_place_memory(&place), 1 << 30);
    (void)snprintf(place.v2_path, sizeof place.v2_path, "/");
    temp_file(&temp, "v2/memory.max", "4096\n", 0644);
    assert_int_equal(cgroup_place_memory(&place), 4096);
    char *v1_mount = place.v1_mount[CGROUP_MEMORY];
    (void)snprintf(v1_mount, PATH_MAX, "%s", temp_path(&temp, "v1", mount));
    (void)snprintf(place.v1_path[CGROUP_MEMORY], PATH_MAX, "/docker/not-seen-from-here");
    temp_file(&temp, "v1/memory.limit_in_bytes", "9223372036854771712\n", 0644);
    assert_int_equal(cgroup_place_memory(&place), 4096);
    place.v2_mount[0] = '\0';
    assert_int_equal(cgroup_place_memory(&place), 0);
    temp_directory(&temp, "other");
    temp_file(&temp, "other/memory.limit_in_bytes", "8192\n", 0644);
    (void)snprintf(v1_mount, PATH_MAX, "%s", temp_path(&temp, "other", mount));
    assert_int_equal(cgroup_place_memory(&place), 8192);
}

static void default_memory_is_a_quarter_within_bounds(void **)
{
    const uint64_t gib = 1UL << 30;
    const struct {
        uint64_t machine;
        uint64_t enclosing;
        uint64_t expected;
    } rows[] = {
        {0, 0, gib},
        {2 * gib, 0, gib},
        {16 * gib, 0, 4 * gib},
        {16 * gib - 1, 0, 4 * gib - (256 << 20)},
        {23 * gib / 2, 0, 11 * gib / 4},
        {256 * gib, 0, 8 * gib},
        {64 * gib, 12 * gib, 3 * gib},
        {64 * gib, gib / 2, gib}, /* box_memory_fit() reduces it below the enclosing limit */
        {8 * gib, 4096 * gib, 2 * gib},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(box_memory_default(rows[i].machine, rows[i].enclosing), rows[i].expected);
    }
}

static void given_memory_is_kept(void **)
{
    struct box_spec spec = {.limits = {.memory_bytes = 64 << 20}};
    box_memory_fit(&spec, /* is_given= */ true);
    assert_int_equal(spec.limits.memory_bytes, 64 << 20);
    box_memory_fit(&spec, /* is_given= */ false);
    assert_true(spec.limits.memory_bytes > 64 << 20);
}

#define CGROUP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CGROUP_TEST(the_lowest_enclosing_limit_is_found),
        CGROUP_TEST(default_memory_is_a_quarter_within_bounds),
        CGROUP_TEST(given_memory_is_kept),
        CGROUP_TEST(process_joins_each_directory),
        CGROUP_TEST(kill_for_memory_is_reported_once),
        CGROUP_TEST(peak_is_read_and_unknown_is_zero),
        CGROUP_TEST(removed_cgroup_is_empty_and_can_be_removed_again),
        CGROUP_TEST(made_cgroup_has_its_limits_and_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
