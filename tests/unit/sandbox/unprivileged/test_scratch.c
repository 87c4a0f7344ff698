#include "sandbox/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/box/box.h"
#include "sandbox/sandbox.h"
#include "sandbox/unprivileged/unprivileged.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { PATIENCE_MS = 60000 };

static struct temp temp;
static struct box_spec spec;
static const struct embedded guest[] = {{"driver.py", (const unsigned char *)"pass\n", 5}, {}};

static int set_up(void **)
{
    temp_make(&temp);
    assert_int_equal(fchmod(temp.fd, 0755),
                     0); /* other users must be able to reach root's scratch directory */
    box_spec_init(&spec);
    spec.guest = guest;
    spec.isolation = BOX_ISOLATION_CONTAINER;
    return setenv("TMPDIR", temp.path, 1);
}

static int tear_down(void **)
{
    (void)unsetenv("TMPDIR");
    temp_remove(&temp);
    return 0;
}

static struct box_scratch *open_scratch(void)
{
    struct fail fail = {};
    struct box_scratch *scratch = NULL;
    if (box_scratch_open(&spec, &scratch, &fail) < 0) {
        fail_msg("%s", fail.text);
    }
    return scratch;
}

/* Number of entries below the test's directory. */
static unsigned count_entries(const char *name)
{
    unsigned count = 0;
    int fd = openat(temp.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count;
}

static void wait_for_entries(const char *name, unsigned count)
{
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;
    while (count_entries(name) != count && clock_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_int_equal(count_entries(name), count);
}

static void prepare(struct box_scratch *scratch)
{
    struct fail fail = {};
    if (scratch_prepare(scratch, geteuid(), getegid(), &fail) < 0) {
        fail_msg("%s", fail.text);
    }
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void paths_lead_into_scratch_and_it_is_removed(void **)
{
    char path[PATH_MAX];
    struct box_scratch *scratch = open_scratch();
    assert_ptr_equal(spec.scratch, scratch);
    assert_memory_equal(spec.paths.work, temp.path, strlen(temp.path));
    (void)snprintf(path, sizeof path, "%s/driver.py", spec.paths.run);
    assert_int_equal(mode_of(path), 0444);
    /* A separate uid passes through it, where all users can reach the interpreter. */
    assert_int_equal(mode_of(scratch->path), scratch->ids.guest == geteuid() ? 0700 : 0711);
    assert_null(spec.paths.packages);
    prepare(scratch);
    assert_int_equal(mode_of(spec.paths.work), 0700);
    assert_int_equal(mode_of(spec.paths.tmp), 0700);
    assert_int_equal(mode_of(spec.paths.home), 0700);
    box_scratch_close(scratch);
    wait_for_entries(".", 0);
}

static void a_new_sandbox_finds_nothing_of_the_last(void **)
{
    char path[PATH_MAX];
    struct box_scratch *scratch = open_scratch();
    prepare(scratch);
    (void)snprintf(path, sizeof path, "%s/kept", spec.paths.work);
    assert_int_equal(mkdir(path, 0), 0);
    prepare(scratch);
    assert_int_equal(access(path, F_OK), -1);
    wait_for_entries(scratch->name, 6); /* the lock, run, work, tmp, home, output */
    box_scratch_close(scratch);
}

static void the_users_own_workspace_is_left_as_it_is(void **)
{
    char workspace[PATH_MAX];
    temp_file(&temp, "work/kept", "", 0600);
    temp_directory(&temp, "tmp");
    spec.workspace = temp_path(&temp, "work", workspace);
    char other[PATH_MAX];
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "tmp", other), 1), 0);
    struct box_scratch *scratch = open_scratch();
    prepare(scratch);
    assert_string_equal(spec.paths.work, workspace);
    box_scratch_close(scratch);
    assert_int_equal(faccessat(temp.fd, "work/kept", F_OK, 0), 0);
}

/* Code can write to the workspace, so it could write to the scratch directory. */
static void scratch_is_never_below_the_workspace(void **)
{
    char workspace[PATH_MAX];
    char inside[PATH_MAX];
    temp_directory(&temp, "work/tmp");
    spec.workspace = temp_path(&temp, "work", workspace);
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "work/tmp", inside), 1), 0);
    struct box_scratch *scratch = open_scratch();
    assert_int_equal(count_entries("work/tmp"), 0);
    assert_int_not_equal(strncmp(scratch->path, workspace, strlen(workspace)), 0);
    box_scratch_close(scratch);
}

static void scratch_is_never_below_a_writable_mount(void **)
{
    char path[PATH_MAX];
    temp_directory(&temp, "data/tmp");
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "data/tmp", path), 1), 0);
    char mounted[PATH_MAX];
    spec.mounts[0] = (struct box_mount){.name = "data", .path = temp_path(&temp, "data", mounted)};
    spec.mount_count = 1;
    for (unsigned i = 0; i < 2; i++) {
        spec.mounts[0].writable = i > 0;
        struct box_scratch *scratch = open_scratch();
        bool below = strncmp(scratch->path, path, strlen(path)) == 0;
        box_scratch_close(scratch);
        assert_int_equal(below, i == 0);
    }
}

static void a_directory_that_others_can_change_is_skipped(void **)
{
    char path[PATH_MAX];
    temp_directory(&temp, "shared");
    temp_directory(&temp, "odd:name");
    assert_int_equal(fchmodat(temp.fd, "shared", 0777, 0), 0);
    static const char *const names[] = {"shared", "odd:name", "missing"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(setenv("TMPDIR", temp_path(&temp, names[i], path), 1), 0);
        struct box_scratch *scratch = open_scratch();
        assert_int_not_equal(strncmp(scratch->path, path, strlen(path)), 0);
        box_scratch_close(scratch);
    }
    assert_int_equal(count_entries("shared"), 0);
}

static void an_installers_program_has_a_directory_of_its_own(void **)
{
    struct fail fail = {};
    char path[PATH_MAX];
    struct box_scratch *scratch = open_scratch();
    for (unsigned i = 0; i < 2; i++) {
        struct box_paths paths = spec.paths;
        assert_int_equal(scratch_add_installer(scratch, guest, NULL, &paths, &fail), 0);
        (void)snprintf(path, sizeof path, "%s/driver.py", paths.run);
        assert_int_equal(mode_of(path), 0444);
        assert_string_not_equal(paths.run, spec.paths.run);
    }
    box_scratch_close(scratch);
}

static void a_killed_server_leaves_nothing(void **)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct fail fail = {};
        struct box_scratch *scratch = NULL;
        if (box_scratch_open(&spec, &scratch, &fail) == 0 &&
            scratch_prepare(scratch, geteuid(), getegid(), &fail) == 0) {
            (void)raise(SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    wait_for_entries(".", 0);
}

/* Other programs keep files in such a directory, too. */
static void only_scratch_directories_are_removed_as_leftovers(void **)
{
    const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    static const char *const old[] = {"sandpiper-left/" SCRATCH_LOCK,
                                      "sandpiper-held/" SCRATCH_LOCK, "other/" SCRATCH_LOCK,
                                      "sandpiper-other/lock", "sandpiper-file"};
    for (unsigned i = 0; i < sizeof old / sizeof *old; i++) {
        temp_file(&temp, old[i], "", 0600);
        assert_int_equal(utimensat(temp.fd, old[i], past, 0), 0);
    }
    temp_file(&temp, "sandpiper-left/work/deep/file", "", 0600);
    temp_file(&temp, "sandpiper-young/" SCRATCH_LOCK, "", 0600);
    temp_directory(&temp, "sandpiper-without");
    assert_int_equal(utimensat(temp.fd, "sandpiper-without", past, 0), 0);
    temp_directory(&temp, "elsewhere");
    temp_file(&temp, "elsewhere/" SCRATCH_LOCK, "", 0600);
    assert_int_equal(utimensat(temp.fd, "elsewhere/" SCRATCH_LOCK, past, 0), 0);
    temp_link(&temp, "elsewhere", "sandpiper-link");
    int held = openat(temp.fd, "sandpiper-held/" SCRATCH_LOCK, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    box_scratch_close(open_scratch());
    wait_for_entries(".", 8);
    assert_int_equal(faccessat(temp.fd, "sandpiper-left", F_OK, 0), -1);
    assert_int_equal(faccessat(temp.fd, "elsewhere/" SCRATCH_LOCK, F_OK, 0), 0);
    (void)close(held);
}

#define SCRATCH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(paths_lead_into_scratch_and_it_is_removed),
        SCRATCH_TEST(a_new_sandbox_finds_nothing_of_the_last),
        SCRATCH_TEST(the_users_own_workspace_is_left_as_it_is),
        SCRATCH_TEST(scratch_is_never_below_the_workspace),
        SCRATCH_TEST(scratch_is_never_below_a_writable_mount),
        SCRATCH_TEST(a_directory_that_others_can_change_is_skipped),
        SCRATCH_TEST(an_installers_program_has_a_directory_of_its_own),
        SCRATCH_TEST(a_killed_server_leaves_nothing),
        SCRATCH_TEST(only_scratch_directories_are_removed_as_leftovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
