#include "sandbox/packages/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "sandbox/sandbox.h"
#include "sandbox/unprivileged/unprivileged.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { PATIENCE_MS = 60000 };

static struct temp temp;
static struct loop *loop;
static struct box_spec spec;
static char cache[PATH_MAX];

static int set_up(void **)
{
    temp_make(&temp);
    box_spec_init(&spec);
    spec.cache = temp_path(&temp, "cache", cache);
    (void)unsetenv("XDG_CACHE_HOME");
    return loop_new(&loop);
}

static int tear_down(void **)
{
    loop_free(loop);
    temp_remove(&temp);
    return 0;
}

static struct box_packages *new_packages(void)
{
    struct fail fail = {};
    struct box_packages *packages = NULL;
    assert_int_equal(box_packages_new(loop, &spec, &packages, &fail), 0);
    return packages;
}

/* The number of servers' directories. */
static unsigned count_boxes(void)
{
    unsigned count = 0;
    int fd = openat(temp.fd, "cache/boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry = NULL;
    while (dir && (entry = readdir(dir))) {
        count += entry->d_name[0] != '.';
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count;
}

static void wait_for_boxes(unsigned count)
{
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;
    while (count_boxes() != count && clock_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_int_equal(count_boxes(), count);
}

/* --- the package directory --- */

static void expect_place(const char *path)
{
    char found[PATH_MAX];
    char wanted[PATH_MAX];
    struct fail fail = {};
    int fd = packages_place(&spec, /* make= */ true, found, &fail);
    if (fd < 0) {
        fail_msg("no place: %s", fail.text);
    }
    (void)close(fd);
    assert_string_equal(found, temp_path(&temp, path, wanted));
}

static void expect_no_place(const char *why)
{
    struct box_packages *packages = new_packages();
    assert_true(packages_open(packages) < 0);
    const char *error = packages->error.text;
    if (!strstr(error, why) || !strstr(error, "--cache DIR")) {
        fail_msg("\"%s\" does not say: %s", error, why);
    }
    box_packages_free(packages);
}

static void the_directory_is_the_named_one_or_the_users_cache(void **)
{
    char home[PATH_MAX];
    char xdg[PATH_MAX];
    expect_place("cache");
    (void)snprintf(cache, sizeof cache, "%s//cache2//", temp.path);
    expect_place("cache2");
    spec.cache = NULL;
    temp_directory(&temp, "home");
    temp_directory(&temp, "xdg");
    assert_int_equal(setenv("HOME", temp_path(&temp, "home", home), 1), 0);
    expect_place("home/.cache/sandpiper");
    assert_int_equal(setenv("XDG_CACHE_HOME", temp_path(&temp, "xdg", xdg), 1), 0);
    expect_place("xdg/sandpiper");
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    expect_place("home/.cache/sandpiper");
    (void)unsetenv("XDG_CACHE_HOME");
    (void)unsetenv("HOME");
    expect_no_place("HOME is not set");
}

static void a_directory_of_another_user_is_refused(void **)
{
    temp_directory(&temp, "elsewhere");
    temp_link(&temp, "elsewhere", "cache");
    expect_no_place("is a symlink or not a directory");
    assert_int_equal(unlinkat(temp.fd, "cache", 0), 0);
    temp_file(&temp, "cache", "", 0600);
    expect_no_place("is a symlink or not a directory");
    assert_int_equal(unlinkat(temp.fd, "cache", 0), 0);
    temp_directory(&temp, "cache");
    assert_int_equal(fchmodat(temp.fd, "cache", 0770, 0), 0);
    expect_no_place("is writable by others");
    assert_int_equal(fchmodat(temp.fd, "cache", 0700, 0), 0);
    temp_link(&temp, "../elsewhere", "cache/boxes");
    expect_no_place("is a symlink or not a directory");
    assert_int_equal(unlinkat(temp.fd, "cache/boxes", 0), 0);
    (void)snprintf(cache, sizeof cache, "/proc/cache");
    expect_no_place("/proc/cache");
    (void)snprintf(cache, sizeof cache, "%s/missing/cache", temp.path);
    expect_no_place("missing");
    (void)snprintf(cache, sizeof cache, "relative");
    expect_no_place("absolute");
    (void)snprintf(cache, sizeof cache, "/");
    expect_no_place("absolute");
}

static void a_directory_inside_the_workspace_is_refused(void **)
{
    char workspace[PATH_MAX];
    temp_directory(&temp, "project/deep");
    temp_link(&temp, "project/deep", "alias");
    spec.workspace = temp_path(&temp, "project", workspace);
    expect_place("cache");
    static const char *const places[] = {"project/cache", "project/deep/cache", "alias/cache"};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(cache, sizeof cache, "%s/%s", temp.path, places[i]);
        expect_no_place("the cache directory");
    }
    (void)snprintf(cache, sizeof cache, "%s/project", temp.path);
    (void)temp_path(&temp, "project/deep", workspace);
    expect_no_place("the cache directory");
}

static void a_directory_that_others_can_write_is_refused(void **)
{
    temp_directory(&temp, "shared");
    assert_int_equal(fchmodat(temp.fd, "shared", 0777, 0), 0);
    (void)snprintf(cache, sizeof cache, "%s/shared/cache", temp.path);
    expect_no_place("has another owner");
    assert_int_equal(fchmodat(temp.fd, "shared", 01777, 0), 0); /* like /tmp */
    expect_place("shared/cache");
    if (fchownat(temp.fd, "shared/cache", 12345, 12345, 0) < 0) {
        unit_skip("root", "a directory of another user's needs root");
    }
    expect_no_place("belongs to another user");
}

static void a_file_system_that_is_read_only_or_full_is_reported(void **)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        unit_skip("root", "a file system of the test's own needs root");
    }
    temp_directory(&temp, "mount");
    (void)snprintf(cache, sizeof cache, "%s/mount/cache", temp.path);
    static const struct {
        const char *data;
        unsigned long flags;
        const char *why;
    } rows[] = {{"mode=0700", MS_RDONLY, "Read-only file system"},
                {"mode=0700,nr_inodes=5", 0, "No space left on device"}};
    char at[PATH_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(
            mount("tmpfs", temp_path(&temp, "mount", at), "tmpfs", rows[i].flags, rows[i].data), 0);
        expect_no_place(rows[i].why);
        assert_int_equal(umount2(at, MNT_DETACH), 0);
    }
}

/* --- exits --- */

static void nothing_is_made_before_it_is_needed(void **)
{
    struct box_packages *packages = new_packages();
    assert_int_equal(box_packages_layers(packages), 0);
    box_packages_discard(packages);
    box_packages_free(packages);
    assert_int_equal(faccessat(temp.fd, "cache", F_OK, 0), -1);
}

static void two_servers_stay_apart_and_leave_nothing(void **)
{
    struct box_packages *one = new_packages();
    struct box_packages *two = new_packages();
    assert_int_equal(packages_open(one), 0);
    assert_int_equal(packages_open(two), 0);
    assert_int_equal(packages_open(two), 0);
    assert_int_equal(count_boxes(), 2);
    assert_string_not_equal(one->layers, two->layers);
    box_packages_free(one);
    wait_for_boxes(1);
    assert_int_equal(access(two->layers, F_OK), 0);
    box_packages_free(two);
    wait_for_boxes(0);
}

/* A server at the level full has made the cache for itself; the next one gives code and installers
 * separate uids, which pass through the directories. */
static void a_cache_serves_installers_with_any_uid(void **)
{
    struct stat st;
    struct box_scratch scratch = {};
    if (geteuid() != 0) {
        unit_skip("root", "only root gives ids away");
    }
    struct box_packages *alone = new_packages();
    assert_int_equal(packages_open(alone), 0);
    assert_int_equal(fchmodat(temp.fd, "cache", 0700, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "cache/boxes", 0700, 0), 0);
    spec.scratch = &scratch;
    scratch.ids.guest = 61184;
    scratch.ids.installer = 65519;
    struct box_packages *sharing = new_packages();
    assert_int_equal(packages_open(sharing), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fstatat(temp.fd, i ? "cache/boxes" : "cache", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0711);
    }
    assert_string_not_equal(sharing->download, alone->download);
    assert_int_equal(stat(sharing->download, &st), 0);
    assert_int_equal(st.st_uid, scratch.ids.installer);
    box_packages_free(sharing);
    box_packages_free(alone);
    spec.scratch = NULL;
}

static void discarded_directories_are_removed_in_the_background(void **)
{
    struct box_packages *packages = new_packages();
    struct stat st;
    struct fail fail = {};
    assert_int_equal(packages_open(packages), 0);
    assert_int_equal(fstatat(packages->directory_fd, "stage", &st, 0), -1);
    assert_int_equal(packages_make_staging(packages, &fail), 0);
    assert_int_equal(mkdirat(packages->directory_fd, "stage/tmp/x", 0), 0);
    assert_int_equal(mkdirat(packages->directory_fd, "stage/new", 0755), 0);
    box_packages_discard(packages);
    assert_int_equal(packages_make_staging(packages, &fail), 0);
    assert_int_equal(fstatat(packages->directory_fd, "stage/new", &st, 0), -1);
    assert_int_equal(fstatat(packages->directory_fd, "stage/tmp", &st, 0), 0);
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;
    while (fstatat(packages->directory_fd, "rubbish-1", &st, 0) == 0 &&
           clock_now_ns() < deadline_ns) {
        (void)usleep(1000);
    }
    assert_int_equal(fstatat(packages->directory_fd, "rubbish-1", &st, 0), -1);
    box_packages_free(packages);
    wait_for_boxes(0);
}

/* Also with content in the directory, and at any moment. */
static void a_killed_server_leaves_nothing(void **)
{
    for (unsigned i = 0; i < 20; i++) {
        int ready[2];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct box_packages *packages = new_packages();
            (void)write(ready[1], "", i % 2);
            (void)packages_open(packages);
            (void)mkdirat(packages->directory_fd, "layers/1", 0755);
            (void)mkdirat(packages->directory_fd, "layers/1/sub", 0);
            (void)write(ready[1], "", 1);
            (void)pause();
        }
        char byte = 0;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        (void)usleep(i * 20);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(ready[0]);
        (void)close(ready[1]);
        wait_for_boxes(0);
    }
}

static void a_killed_cleanup_helper_is_replaced(void **)
{
    char path[64];
    char child[32];
    struct box_packages *packages = new_packages();
    assert_int_equal(packages_open(packages), 0);
    assert_int_equal(mkdirat(packages->directory_fd, "layers/1", 0755), 0);
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    assert_true(fd_read_text_at(AT_FDCWD, path, child, sizeof child) > 0);
    assert_int_equal(kill((pid_t)strtol(child, NULL, 10), SIGKILL), 0);
    box_packages_free(packages);
    wait_for_boxes(0);
}

/* A server that was killed together with its cleanup helper leaves a directory. But one with a lock
 * is in use, and a young one may be about to be. */
static void leftovers_are_removed_by_the_next_server(void **)
{
    const struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    temp_file(&temp, "cache/boxes/held/lock", "", 0600);
    temp_file(&temp, "cache/boxes/left/lock", "", 0600);
    temp_file(&temp, "cache/boxes/left/layers/1/x.py", "", 0600);
    temp_directory(&temp, "cache/boxes/without");
    assert_int_equal(fchmodat(temp.fd, "cache", 0700, 0), 0);
    assert_int_equal(fchmodat(temp.fd, "cache/boxes", 0700, 0), 0);
    temp_file(&temp, "cache/boxes/young/lock", "", 0600);
    temp_directory(&temp, "cache/boxes/without-young");
    static const char *const old[] = {"held/lock", "left/lock", "without"};
    for (unsigned i = 0; i < sizeof old / sizeof *old; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "cache/boxes/%s", old[i]);
        assert_int_equal(utimensat(temp.fd, path, past, 0), 0);
    }
    int held = openat(temp.fd, "cache/boxes/held/lock", O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    struct box_packages *packages = new_packages();
    assert_int_equal(packages_open(packages), 0);
    box_packages_free(packages);
    wait_for_boxes(3);
    assert_int_equal(faccessat(temp.fd, "cache/boxes/held", F_OK, 0), 0);
    assert_int_equal(faccessat(temp.fd, "cache/boxes/young", F_OK, 0), 0);
    assert_int_equal(faccessat(temp.fd, "cache/boxes/without-young", F_OK, 0), 0);
    (void)close(held);
}

#define PACKAGES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACKAGES_TEST(the_directory_is_the_named_one_or_the_users_cache),
        PACKAGES_TEST(a_directory_of_another_user_is_refused),
        PACKAGES_TEST(a_directory_inside_the_workspace_is_refused),
        PACKAGES_TEST(a_directory_that_others_can_write_is_refused),
        PACKAGES_TEST(nothing_is_made_before_it_is_needed),
        PACKAGES_TEST(two_servers_stay_apart_and_leave_nothing),
        PACKAGES_TEST(a_cache_serves_installers_with_any_uid),
        PACKAGES_TEST(discarded_directories_are_removed_in_the_background),
        PACKAGES_TEST(a_killed_server_leaves_nothing),
        PACKAGES_TEST(a_killed_cleanup_helper_is_replaced),
        PACKAGES_TEST(leftovers_are_removed_by_the_next_server),
        PACKAGES_TEST(a_file_system_that_is_read_only_or_full_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
