/* The attributes of files: which ones the guest may change, which not, and that nothing else
 * changes while names, memory and descriptors change meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/guest.h"
#include "tests/unit/unit.h"

static time_t time_of(const char *path)
{
    struct stat st;
    EXPECT(lstat(path, &st) == 0);
    return st.st_mtime;
}

static long raw_utimensat(int dir, const char *path, const struct timespec *times, int flags)
{
    return syscall(SYS_utimensat, dir, path, times, flags);
}

static void change_own_modes(void)
{
    guest_file("own");
    int dir = open(guest_work, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = open("own", O_RDONLY | O_CLOEXEC);
    EXPECT(mkdir("directory", 0700) == 0 && symlink("own", "link") == 0);
    EXPECT(symlink(guest_path(guest_work, "own"), "absolute") == 0);
    EXPECT(chmod("own", 0640) == 0 && guest_mode("own") == 0640);
    EXPECT(chmod(guest_path(guest_work, "directory/../own"), 0604) == 0 &&
           guest_mode("own") == 0604);
    EXPECT(chmod("link", 0611) == 0 && guest_mode("own") == 0611);
    EXPECT(chmod("absolute", 0612) == 0 && guest_mode("own") == 0612);
    EXPECT(fchmod(fd, 0622) == 0 && guest_mode("own") == 0622);
    EXPECT(fchmodat(dir, "own", 0633, 0) == 0 && guest_mode("own") == 0633);
    EXPECT(chdir("directory") == 0 && chmod("../own", 0644) == 0 && chdir("..") == 0);
    EXPECT(guest_mode("own") == 0644);
    EXPECT(chmod("directory", 01755) == 0 && guest_mode("directory") == 01755);
    EXPECT(chmod(".", 0700) == 0);
    EXPECT(unlink("own") == 0 && fchmod(fd, 0600) == 0);
    EXPECT_ERROR(chmod("own", 0600), ENOENT);
    EXPECT_ERROR(chmod("", 0600), ENOENT);
    EXPECT_ERROR(chmod((const char *)(uintptr_t)1, 0600), EFAULT);
    EXPECT_ERROR(chmod("directory/x/y", 0600), ENOENT);
    EXPECT_ERROR(fchmod(77, 0600), EBADF);
    EXPECT_ERROR(fchmod(-1, 0600), EBADF);
    EXPECT_ERROR(fchmodat(77, "own", 0600, 0), EBADF);
    EXPECT_ERROR(fchmodat(fd, "own", 0600, 0), ENOTDIR);
}

static void own_modes_are_changed(void **)
{
    guest_run(&guest_new, &guest_settings, change_own_modes, 0);
}

/* As a C library without fchmodat2(2): by the name of its own descriptor. */
static void change_by_descriptor_names(void)
{
    char name[64];
    guest_file("named");
    int fd = open("named", O_PATH | O_CLOEXEC);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    EXPECT(chmod(name, 0621) == 0 && guest_mode("named") == 0621);
    (void)snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
    EXPECT(chmod(name, 0631) == 0 && guest_mode("named") == 0631);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d/", fd);
    EXPECT(chmod(name, 0600) < 0);
    EXPECT_ERROR(chmod("/proc/self/fd/99999999999", 0600), ENOENT);
    int other = open(guest_path(guest_outside, "file"), O_PATH | O_CLOEXEC);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", other);
    EXPECT_ERROR(chmod(name, 0666), EPERM);
    EXPECT_ERROR(chmod("/proc/self/cwd/named", 0600), ELOOP);
    EXPECT_ERROR(chmod("/proc/self/root/etc", 0600), ELOOP);
}

static void proc_self_fd_names_the_callers_descriptors(void **)
{
    guest_run(&guest_new, &guest_settings, change_by_descriptor_names, 0);
}

static void change_times(void)
{
    const struct timespec then[2] = {{1000, 5}, {2000, 7}};
    const struct timespec odd[2] = {{1000, -5}, {2000, 7}};
    const struct timespec omit[2] = {{0, UTIME_OMIT}, {3000, 0}};
    const struct timeval when[2] = {{1000, 1}, {4000, 2}};
    const struct timeval wrong[2] = {{1000, 1}, {4000, 1000000}};
    guest_file("timed");
    EXPECT(symlink("timed", "timed_link") == 0);
    int fd = open("timed", O_RDONLY | O_CLOEXEC);
    int dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    EXPECT(raw_utimensat(AT_FDCWD, "timed", then, 0) == 0 && time_of("timed") == 2000);
    EXPECT(raw_utimensat(AT_FDCWD, "timed", omit, 0) == 0 && time_of("timed") == 3000);
    EXPECT(raw_utimensat(fd, NULL, then, 0) == 0 && time_of("timed") == 2000);
    EXPECT(raw_utimensat(dir, "timed", omit, 0) == 0 && time_of("timed") == 3000);
    EXPECT(raw_utimensat(fd, "", then, AT_EMPTY_PATH) == 0 && time_of("timed") == 2000);
    EXPECT(raw_utimensat(AT_FDCWD, "timed", NULL, 0) == 0 && time_of("timed") > 100000);
    EXPECT(raw_utimensat(AT_FDCWD, "timed_link", then, AT_SYMLINK_NOFOLLOW) == 0);
    EXPECT(time_of("timed_link") == 2000 && time_of("timed") > 100000);
    EXPECT(raw_utimensat(AT_FDCWD, "", then, AT_EMPTY_PATH) == 0 && time_of(".") == 2000);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, "", then, 0), ENOENT);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, NULL, then, 0), EFAULT);
    EXPECT_ERROR(raw_utimensat(fd, NULL, then, AT_SYMLINK_NOFOLLOW), EINVAL);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, "timed", then, AT_REMOVEDIR), EINVAL);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, "timed", odd, 0), EINVAL);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, "timed", (const struct timespec *)(uintptr_t)1, 0),
                 EFAULT);
    EXPECT_ERROR(raw_utimensat(88, NULL, then, 0), EBADF);
#ifdef SYS_utimes
    const long seconds[2] = {1000, 5000};
    EXPECT(syscall(SYS_utimes, "timed", when) == 0 && time_of("timed") == 4000);
    EXPECT(syscall(SYS_utime, "timed", seconds) == 0 && time_of("timed") == 5000);
    EXPECT(syscall(SYS_futimesat, dir, "timed", when) == 0 && time_of("timed") == 4000);
    EXPECT(syscall(SYS_futimesat, fd, NULL, NULL) == 0 && time_of("timed") > 100000);
    EXPECT_ERROR(syscall(SYS_utimes, "timed", wrong), EINVAL);
    EXPECT_ERROR(syscall(SYS_utimes, NULL, when), EFAULT);
#endif
    (void)when;
    (void)wrong;
}

static void own_times_are_changed(void **)
{
    guest_run(&guest_new, &guest_settings, change_times, 0);
}

static void change_what_is_outside(void)
{
    const struct timespec then[2] = {{1000, 5}, {2000, 7}};
    const char *file = strdup(guest_path(guest_outside, "file"));
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    int dir = open(guest_outside, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int pipes[2];
    EXPECT(file && fd >= 0 && dir >= 0 && pipe2(pipes, O_CLOEXEC) == 0);
    EXPECT(symlink(file, "egress") == 0 && symlink(guest_outside, "directory_out") == 0);
    EXPECT_ERROR(chmod(file, 0666), EPERM);
    EXPECT_ERROR(chmod("../outside/file", 0666), EPERM);
    EXPECT_ERROR(chmod("egress", 0666), EPERM);
    EXPECT_ERROR(chmod("directory_out/file", 0666), EPERM);
    EXPECT_ERROR(chmod("..", 0777), EPERM);
    EXPECT_ERROR(fchmod(fd, 0666), EPERM);
    EXPECT_ERROR(fchmod(dir, 0777), EPERM);
    EXPECT_ERROR(fchmod(pipes[0], 0666), EPERM);
    EXPECT_ERROR(fchmodat(dir, "file", 0666, 0), EPERM);
    EXPECT_ERROR(chmod("/dev/null", 0666), EPERM);
    EXPECT_ERROR(chmod("/", 0755), EPERM);
    EXPECT_ERROR(chmod("/proc/self/status", 0644), EPERM);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, file, then, 0), EPERM);
    EXPECT_ERROR(raw_utimensat(AT_FDCWD, "egress", NULL, 0), EPERM);
    EXPECT_ERROR(raw_utimensat(fd, NULL, then, 0), EPERM);
    EXPECT_ERROR(raw_utimensat(dir, "", then, AT_EMPTY_PATH), EPERM);
    /* The symlink itself is the guest's. */
    EXPECT(raw_utimensat(AT_FDCWD, "egress", then, AT_SYMLINK_NOFOLLOW) == 0);
    /* Its name begins like that of a place. */
    EXPECT(chdir("..") == 0 && mkdir("work2", 0700) == 0);
    EXPECT_ERROR(chmod("work2", 0755), EPERM);
    EXPECT(rmdir("work2") == 0);
    EXPECT(guest_mode(file) == 0600);
    EXPECT(time_of(file) > 100000);
}

static void foreign_attributes_stay(void **)
{
    guest_run(&guest_new, &guest_settings, change_what_is_outside, 0);
}

static void name_long_paths(void)
{
    static char name[PATH_MAX + 2];
    guest_file("long");
    memset(name, '/', sizeof name - 1);
    EXPECT_ERROR(chmod(name, 0600), ENAMETOOLONG);
    memset(name, '.', sizeof name - 1);
    EXPECT_ERROR(chmod(name, 0600), ENAMETOOLONG);
    for (unsigned i = 0; i < PATH_MAX - 6; i++) {
        name[i] = i % 2 ? '/' : '.';
    }
    memcpy(name + PATH_MAX - 6, "long", 5);
    EXPECT(chmod(name, 0641) == 0 && guest_mode("long") == 0641);
    /* A string that ends where the memory ends, and one without an end. */
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED && munmap(page + 4096, 4096) == 0);
    memcpy(page + 4096 - 5, "long", 5);
    EXPECT(chmod(page + 4096 - 5, 0642) == 0 && guest_mode("long") == 0642);
    page[4095] = 'x';
    EXPECT_ERROR(chmod(page + 4096 - 5, 0600), EFAULT);
    EXPECT_ERROR(chmod((const char *)(uintptr_t)-8, 0600), EFAULT);
}

static void long_paths_get_the_kernels_errors(void **)
{
    guest_run(&guest_new, &guest_settings, name_long_paths, 0);
}

static void change_pipes(void)
{
    EXPECT(mkfifo("pipe", 0600) == 0);
    EXPECT(chmod("pipe", 0620) == 0 && guest_mode("pipe") == 0620);
    EXPECT(raw_utimensat(AT_FDCWD, "pipe", NULL, 0) == 0);
}

/* No process opens the pipe's other end. */
static void a_pipe_blocks_no_other_call(void **)
{
    guest_run(&guest_new, &guest_settings, change_pipes, 0);
}

static void truncate_files(void)
{
    struct stat st;
    guest_file("cut");
    EXPECT(truncate("cut", 100) == 0 && stat("cut", &st) == 0 && st.st_size == 100);
    EXPECT_ERROR(truncate("cut", GUEST_FILE_BYTES + 1), EFBIG);
    EXPECT_ERROR(truncate("cut", -1), EINVAL);
    EXPECT_ERROR(truncate(guest_path(guest_outside, "file"), 0), EPERM);
    EXPECT(stat(guest_path(guest_outside, "file"), &st) == 0 && st.st_size == 1);
}

static void files_outside_are_not_truncated(void **)
{
    guest_run(&guest_old, &guest_settings, truncate_files, 0);
}

/* --- races --- */

static char racing[2][PATH_MAX];
static char *argument;

/* Rewrites the other thread's path, as fast as it can. */
static void *rewrite(void *)
{
    while (!shared->stop) {
        memcpy(argument, racing[0], strlen(racing[0]) + 1);
        memcpy(argument, racing[1], strlen(racing[1]) + 1);
    }
    return NULL;
}

/* Switches what the path names: a directory of the guest's own, or a symlink that leaves it. */
static void *swap_names(void *)
{
    while (!shared->stop) {
        (void)syscall(SYS_renameat2, AT_FDCWD, "swapped", AT_FDCWD, "swap_link", RENAME_EXCHANGE);
    }
    return NULL;
}

enum { RACES = 3000 };

static void race(void *(*meanwhile)(void *), const char *path)
{
    pthread_t thread;
    unsigned passed = 0;
    shared->stop = 0;
    EXPECT(pthread_create(&thread, NULL, meanwhile, NULL) == 0);
    for (unsigned i = 0; i < RACES; i++) {
        passed += chmod(path, 0666) == 0;
    }
    shared->stop = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(passed > 0);
    EXPECT(guest_mode(guest_path(guest_outside, "file")) == 0600);
}

static void race_with_memory(void)
{
    static char memory[PATH_MAX];
    argument = memory;
    guest_file("mine");
    memcpy(racing[0], guest_path(guest_work, "mine"), strlen(guest_path(guest_work, "mine")) + 1);
    memcpy(racing[1], guest_path(guest_outside, "file"),
           strlen(guest_path(guest_outside, "file")) + 1);
    memcpy(memory, racing[0], strlen(racing[0]) + 1);
    race(rewrite, memory);
}

static void memory_that_changes_gets_nothing_through(void **)
{
    guest_run(&guest_new, &guest_settings, race_with_memory, 0);
}

static void race_with_names(void)
{
    EXPECT(mkdir("swapped", 0700) == 0 && symlink(guest_outside, "swap_link") == 0);
    guest_file("swapped/file");
    race(swap_names, "swapped/file");
}

static void names_that_change_get_nothing_through(void **)
{
    guest_run(&guest_new, &guest_settings, race_with_names, 0);
}

static void *swap_descriptors(void *)
{
    int mine = open("mine", O_RDONLY | O_CLOEXEC);
    int other = open(guest_path(guest_outside, "file"), O_RDONLY | O_CLOEXEC);
    while (!shared->stop) {
        (void)dup3(mine, 50, O_CLOEXEC);
        (void)dup3(other, 50, O_CLOEXEC);
    }
    return NULL;
}

static void race_with_descriptors(void)
{
    pthread_t thread;
    unsigned passed = 0;
    shared->stop = 0;
    guest_file("mine");
    EXPECT(dup2(open("mine", O_RDONLY | O_CLOEXEC), 50) == 50);
    EXPECT(pthread_create(&thread, NULL, swap_descriptors, NULL) == 0);
    for (unsigned i = 0; i < RACES; i++) {
        passed += fchmod(50, 0666) == 0;
    }
    shared->stop = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(passed > 0 && guest_mode(guest_path(guest_outside, "file")) == 0600);
}

static void descriptors_that_change_get_nothing_through(void **)
{
    guest_run(&guest_new, &guest_settings, race_with_descriptors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_modes_are_changed),
        cmocka_unit_test(proc_self_fd_names_the_callers_descriptors),
        cmocka_unit_test(own_times_are_changed),
        cmocka_unit_test(foreign_attributes_stay),
        cmocka_unit_test(long_paths_get_the_kernels_errors),
        cmocka_unit_test(a_pipe_blocks_no_other_call),
        cmocka_unit_test(files_outside_are_not_truncated),
        cmocka_unit_test(memory_that_changes_gets_nothing_through),
        cmocka_unit_test(names_that_change_get_nothing_through),
        cmocka_unit_test(descriptors_that_change_get_nothing_through),
    };
    return cmocka_run_group_tests(tests, guest_make_all, guest_remove_all);
}
