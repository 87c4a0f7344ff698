/* The walk without openat2(2) must open and refuse the same as the kernel with it. Each row is
 * tried in three children, each with its own tree: with the call, without it, and where it is
 * forbidden. */
#include "sandbox/programs/common/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { PLACE = O_PATH, READ = O_RDONLY | O_NONBLOCK, MAKE = O_WRONLY | O_CREAT | O_NONBLOCK };

static const struct row {
    const char *path;
    int flags;
} rows[] = {
    {"", READ},
    {".", READ},
    {"..", PLACE},
    {"/", READ},
    {"//usr//..//usr/.", READ},
    {"/../..", PLACE},
    {"file", READ},
    {"file/", READ},
    {"file/.", READ},
    {"file/x", READ},
    {"./file", READ},
    {"directory/file", READ},
    {"directory//file", READ},
    {"directory/", READ},
    {"directory/../file", READ},
    {"directory/.", PLACE | O_DIRECTORY},
    {"missing", READ},
    {"missing/file", READ},
    {"to_file", READ},
    {"to_file", PLACE},
    {"to_file", READ | O_NOFOLLOW},
    {"to_file", PLACE | O_DIRECTORY},
    {"to_file/", READ},
    {"to_directory", PLACE | O_DIRECTORY},
    {"to_directory", PLACE},
    {"to_directory/", READ},
    {"to_directory/file", READ},
    {"to_directory/../file", READ},
    {"to_parent/file", READ},
    {"to_root", READ},
    {"to_root/usr", READ},
    {"to_to_directory/file", READ},
    {"to_slash_directory", READ},
    {"to_itself", READ},
    {"to_itself", PLACE},
    {"to_itself/file", READ},
    {"chain_39", READ},
    {"chain_40", READ},
    {"chain_41", READ},
    {"to_nothing", READ},
    {"to_nothing/file", READ},
    {"fifo", READ},
    {"fifo/", READ},
    {"locked/file", READ},
    {"new", MAKE},
    {"new", MAKE | O_EXCL},
    {"file", MAKE | O_EXCL},
    {"to_file", MAKE},
    {"to_file", MAKE | O_EXCL},
    {"to_fresh", MAKE | O_EXCL},
    {"to_fresh", MAKE},
    {"fresh", READ},
    {"directory", MAKE},
    {"/proc", PLACE},
    {"/proc/self", PLACE | O_DIRECTORY},
    {"/proc/self/status", READ},
    {"/proc/thread-self/status", READ},
    {"/proc/self/cwd", PLACE},
    {"/proc/self/cwd/file", READ},
    {"/proc/self/root", PLACE | O_DIRECTORY},
    {"/proc/self/root/usr", READ},
    {"/proc/self/exe", READ},
    {"/proc/self/exe", PLACE | O_NOFOLLOW},
    {"/proc/self/fd/0", PLACE},
    {"/proc/self/fd/0/", READ},
    {"/proc/self/ns/user", READ},
    {"/proc/mounts", PLACE},
    {"to_proc/cwd", PLACE},
    {"to_magic", PLACE},
    {"to_magic/file", READ},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Result of a row: an errno, or the kind of what was opened and whether it is the tree's file. */
struct result {
    int error;
    unsigned kind;
    bool is_file;
};

static void make_tree(const struct temp *temp)
{
    char name[16];
    char to[16];
    temp_file(temp, "file", "1", 0644);
    assert_int_equal(mkdirat(temp->fd, "directory", 0755), 0);
    temp_file(temp, "directory/file", "2", 0644);
    assert_int_equal(mkdirat(temp->fd, "locked", 0), 0);
    assert_int_equal(mkfifoat(temp->fd, "fifo", 0644), 0);
    const char *const links[][2] = {
        {"to_file", "file"},
        {"to_directory", "directory"},
        {"to_to_directory", "to_directory"},
        {"to_slash_directory", "directory/"},
        {"to_parent", "directory/.."},
        {"to_root", "/"},
        {"to_itself", "to_itself"},
        {"to_nothing", "nothing"},
        {"to_fresh", "directory/../fresh"},
        {"to_proc", "/proc/self"},
        {"to_magic", "/proc/self/cwd"},
        {"chain_0", "file"},
    };
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
        assert_int_equal(symlinkat(links[i][1], temp->fd, links[i][0]), 0);
    }
    for (unsigned i = 1; i <= 41; i++) {
        (void)snprintf(name, sizeof name, "chain_%u", i);
        (void)snprintf(to, sizeof to, "chain_%u", i - 1);
        assert_int_equal(symlinkat(to, temp->fd, name), 0);
    }
}

static struct result try_row(const struct row *row)
{
    struct result result = {};
    struct stat st;
    struct stat file;
    int fd = walk_open(AT_FDCWD, row->path, row->flags, 0600);
    if (fd < 0) {
        result.error = -fd;
        return result;
    }
    if (fstat(fd, &st) == 0 && stat("file", &file) == 0) {
        result.kind = st.st_mode & S_IFMT;
        result.is_file = st.st_ino == file.st_ino && st.st_dev == file.st_dev;
    }
    (void)close(fd);
    return result;
}

/* Tries all rows in a child in which openat2 fails with error; 0: it works as in the kernel. */
static void try_all(int error, struct result *results)
{
    struct temp temp;
    int fds[2];
    temp_make(&temp);
    make_tree(&temp);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fchdir(temp.fd) < 0 || (error && !unit_deny(SYS_openat2, error))) {
            _exit(1);
        }
        for (unsigned i = 0; i < ROWS; i++) {
            struct result result = try_row(&rows[i]);
            if (write(fds[1], &result, sizeof result) != sizeof result) {
                _exit(1);
            }
        }
        _exit(0);
    }
    (void)close(fds[1]);
    for (unsigned i = 0; i < ROWS; i++) {
        assert_int_equal(read(fds[0], &results[i], sizeof *results), sizeof *results);
    }
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    temp_remove(&temp);
}

static void walk_opens_and_refuses_what_the_kernel_does(void **)
{
    static struct result by_kernel[ROWS];
    static struct result by_walk[ROWS];
    const int errors[] = {ENOSYS, EPERM};
    if (syscall(SYS_openat2, -1, "", NULL, (size_t)0) < 0 && errno != EINVAL) {
        unit_skip("openat2", "this kernel has none to compare with");
    }
    try_all(0, by_kernel);
    for (unsigned e = 0; e < 2; e++) {
        try_all(errors[e], by_walk);
        for (unsigned i = 0; i < ROWS; i++) {
            if (by_walk[i].error != by_kernel[i].error || by_walk[i].kind != by_kernel[i].kind ||
                by_walk[i].is_file != by_kernel[i].is_file) {
                fail_msg("%s with flags %#x: %s, kind %o instead of %s, kind %o", rows[i].path,
                         (unsigned)rows[i].flags, strerror(by_walk[i].error), by_walk[i].kind,
                         strerror(by_kernel[i].error), by_kernel[i].kind);
            }
        }
    }
}

static void magic_links_lead_nowhere(void **)
{
    static struct result results[ROWS];
    const int errors[] = {0, ENOSYS};
    for (unsigned e = 0; e < 2; e++) {
        try_all(errors[e], results);
        for (unsigned i = 0; i < ROWS; i++) {
            bool through = strncmp(rows[i].path, "/proc/self/cwd", 14) == 0 ||
                           strncmp(rows[i].path, "/proc/self/root", 15) == 0 ||
                           strncmp(rows[i].path, "/proc/self/fd/0", 15) == 0 ||
                           strncmp(rows[i].path, "to_magic", 8) == 0;
            if (through) {
                assert_int_equal(results[i].error, ELOOP);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walk_opens_and_refuses_what_the_kernel_does),
        cmocka_unit_test(magic_links_lead_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
