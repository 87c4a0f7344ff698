#include "sandbox/room.h"

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
#include "sandbox/room_inside.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { PATIENCE_MS = 60000 };

static struct temp temp;
static struct box_spec spec;
static const struct embedded guest[] = {{"driver.py", (const unsigned char *)"pass\n", 5}, {}};

static int set_up(void **)
{
    temp_make(&temp);
    assert_int_equal(fchmod(temp.fd, 0755), 0); /* root's room is where others can go */
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

static struct box_room *open_room(void)
{
    struct fail fail = {};
    struct box_room *room = NULL;
    if (box_room_open(&spec, &room, &fail) < 0) {
        fail_msg("%s", fail.text);
    }
    return room;
}

/* How many entries there are below the folder of the test. */
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

static void prepare(struct box_room *room)
{
    struct fail fail = {};
    if (room_prepare(room, geteuid(), getegid(), &fail) < 0) {
        fail_msg("%s", fail.text);
    }
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void a_view_leads_into_the_room_and_it_goes(void **)
{
    char path[PATH_MAX];
    struct box_room *room = open_room();
    assert_ptr_equal(spec.room, room);
    assert_memory_equal(spec.view.work, temp.path, strlen(temp.path));
    (void)snprintf(path, sizeof path, "%s/driver.py", spec.view.run);
    assert_int_equal(mode_of(path), 0444);
    /* Who has an id of their own goes through it, where the interpreter can be reached by all. */
    assert_int_equal(mode_of(room->path), room->ids.guest == geteuid() ? 0700 : 0711);
    assert_null(spec.view.packages);
    prepare(room);
    assert_int_equal(mode_of(spec.view.work), 0700);
    assert_int_equal(mode_of(spec.view.tmp), 0700);
    assert_int_equal(mode_of(spec.view.home), 0700);
    box_room_close(room);
    wait_for_entries(".", 0);
}

static void a_new_box_finds_nothing_of_the_last(void **)
{
    char path[PATH_MAX];
    struct box_room *room = open_room();
    prepare(room);
    (void)snprintf(path, sizeof path, "%s/kept", spec.view.work);
    assert_int_equal(mkdir(path, 0), 0);
    prepare(room);
    assert_int_equal(access(path, F_OK), -1);
    wait_for_entries(room->name, 6); /* the lock, run, work, tmp, home, output */
    box_room_close(room);
}

static void the_users_own_workspace_is_left_as_it_is(void **)
{
    char workspace[PATH_MAX];
    temp_file(&temp, "work/kept", "", 0600);
    temp_folder(&temp, "tmp");
    spec.workspace = temp_path(&temp, "work", workspace);
    char other[PATH_MAX];
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "tmp", other), 1), 0);
    struct box_room *room = open_room();
    prepare(room);
    assert_string_equal(spec.view.work, workspace);
    box_room_close(room);
    assert_int_equal(faccessat(temp.fd, "work/kept", F_OK, 0), 0);
}

/* Code writes to the workspace: it would write to the room. */
static void a_room_is_never_below_the_workspace(void **)
{
    char workspace[PATH_MAX];
    char inside[PATH_MAX];
    temp_folder(&temp, "work/tmp");
    spec.workspace = temp_path(&temp, "work", workspace);
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "work/tmp", inside), 1), 0);
    struct box_room *room = open_room();
    assert_int_equal(count_entries("work/tmp"), 0);
    assert_int_not_equal(strncmp(room->path, workspace, strlen(workspace)), 0);
    box_room_close(room);
}

static void a_room_is_never_below_what_is_mounted_to_be_written(void **)
{
    char path[PATH_MAX];
    temp_folder(&temp, "data/tmp");
    assert_int_equal(setenv("TMPDIR", temp_path(&temp, "data/tmp", path), 1), 0);
    char mounted[PATH_MAX];
    spec.mounts[0] = (struct box_mount){.name = "data", .path = temp_path(&temp, "data", mounted)};
    spec.mount_count = 1;
    for (unsigned i = 0; i < 2; i++) {
        spec.mounts[0].writable = i > 0;
        struct box_room *room = open_room();
        bool below = strncmp(room->path, path, strlen(path)) == 0;
        box_room_close(room);
        assert_int_equal(below, i == 0);
    }
}

static void a_folder_that_others_can_change_is_passed_over(void **)
{
    char path[PATH_MAX];
    temp_folder(&temp, "shared");
    temp_folder(&temp, "odd:name");
    assert_int_equal(fchmodat(temp.fd, "shared", 0777, 0), 0);
    static const char *const names[] = {"shared", "odd:name", "missing"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(setenv("TMPDIR", temp_path(&temp, names[i], path), 1), 0);
        struct box_room *room = open_room();
        assert_int_not_equal(strncmp(room->path, path, strlen(path)), 0);
        box_room_close(room);
    }
    assert_int_equal(count_entries("shared"), 0);
}

static void an_errands_program_has_a_folder_of_its_own(void **)
{
    struct fail fail = {};
    char path[PATH_MAX];
    struct box_room *room = open_room();
    for (unsigned i = 0; i < 2; i++) {
        struct box_view view = spec.view;
        assert_int_equal(room_add_errand(room, guest, &view, &fail), 0);
        (void)snprintf(path, sizeof path, "%s/driver.py", view.run);
        assert_int_equal(mode_of(path), 0444);
        assert_string_not_equal(view.run, spec.view.run);
    }
    box_room_close(room);
}

static void a_killed_server_leaves_nothing(void **)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct fail fail = {};
        struct box_room *room = NULL;
        if (box_room_open(&spec, &room, &fail) == 0 &&
            room_prepare(room, geteuid(), getegid(), &fail) == 0) {
            (void)raise(SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    wait_for_entries(".", 0);
}

/* Others have things in such a folder too. */
static void of_leftovers_only_rooms_are_removed(void **)
{
    const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    static const char *const old[] = {"sandpiper-left/" ROOM_LOCK, "sandpiper-held/" ROOM_LOCK,
                                      "other/" ROOM_LOCK, "sandpiper-other/lock", "sandpiper-file"};
    for (unsigned i = 0; i < sizeof old / sizeof *old; i++) {
        temp_file(&temp, old[i], "", 0600);
        assert_int_equal(utimensat(temp.fd, old[i], past, 0), 0);
    }
    temp_file(&temp, "sandpiper-left/work/deep/file", "", 0600);
    temp_file(&temp, "sandpiper-young/" ROOM_LOCK, "", 0600);
    temp_folder(&temp, "sandpiper-without");
    assert_int_equal(utimensat(temp.fd, "sandpiper-without", past, 0), 0);
    temp_folder(&temp, "elsewhere");
    temp_file(&temp, "elsewhere/" ROOM_LOCK, "", 0600);
    assert_int_equal(utimensat(temp.fd, "elsewhere/" ROOM_LOCK, past, 0), 0);
    temp_link(&temp, "elsewhere", "sandpiper-link");
    int held = openat(temp.fd, "sandpiper-held/" ROOM_LOCK, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    box_room_close(open_room());
    wait_for_entries(".", 8);
    assert_int_equal(faccessat(temp.fd, "sandpiper-left", F_OK, 0), -1);
    assert_int_equal(faccessat(temp.fd, "elsewhere/" ROOM_LOCK, F_OK, 0), 0);
    (void)close(held);
}

#define ROOM_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROOM_TEST(a_view_leads_into_the_room_and_it_goes),
        ROOM_TEST(a_new_box_finds_nothing_of_the_last),
        ROOM_TEST(the_users_own_workspace_is_left_as_it_is),
        ROOM_TEST(a_room_is_never_below_the_workspace),
        ROOM_TEST(a_room_is_never_below_what_is_mounted_to_be_written),
        ROOM_TEST(a_folder_that_others_can_change_is_passed_over),
        ROOM_TEST(an_errands_program_has_a_folder_of_its_own),
        ROOM_TEST(a_killed_server_leaves_nothing),
        ROOM_TEST(of_leftovers_only_rooms_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
