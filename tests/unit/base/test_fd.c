#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static void waiting_is_switched_off_and_on(void **)
{
    int fds[2];
    char byte = 0;
    assert_int_equal(fd_socketpair(SOCK_STREAM, fds), 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_set_nonblock(fds[0], true), 0);
    assert_int_equal(read(fds[0], &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fd_set_nonblock(fds[0], false), 0);
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    assert_int_equal(fd_set_nonblock(fds[0], true), -EBADF);
}

static void no_pair_leaves_the_numbers_as_they_were(void **)
{
    int fds[2] = {-1, -1};
    assert_true(fd_socketpair(12345, fds) < 0);
    assert_int_equal(fds[0], -1);
    assert_int_equal(fds[1], -1);
}

static void wake(int)
{
}

/* More than a pipe holds, and signals: writes are short, and fail with EINTR. */
static void all_is_written_in_as_many_writes_as_it_takes(void **)
{
    static char block[1 << 20];
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_handler = wake};
        struct itimerval often = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
        (void)sigaction(SIGALRM, &action, NULL);
        (void)setitimer(ITIMER_REAL, &often, NULL);
        memset(block, 'x', sizeof block);
        (void)close(fds[0]);
        _exit(fd_write_all(fds[1], block, sizeof block) == 0 ? 0 : 1);
    }
    (void)close(fds[1]);
    size_t have = 0;
    ssize_t n = 0;
    while ((n = read(fds[0], block, 50000)) > 0) {
        have += (size_t)n;
        (void)poll(NULL, 0, 3); /* so that signals find the writer waiting */
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(have, sizeof block);
    (void)close(fds[0]);
}

static void write_without_a_reader_is_an_error(void **)
{
    int fds[2];
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    assert_int_equal(sigaction(SIGPIPE, &ignore, &before), 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)close(fds[0]);
    assert_int_equal(fd_write_all(fds[1], "x", 1), -EPIPE);
    (void)close(fds[1]);
    assert_int_equal(sigaction(SIGPIPE, &before, NULL), 0);
}

static void text_that_fills_the_buffer_is_refused_one_less_fits(void **)
{
    struct temp temp;
    char text[8];
    temp_make(&temp);
    temp_file(&temp, "seven", "1234567", 0644);
    temp_file(&temp, "eight", "12345678", 0644);
    temp_file(&temp, "none", "", 0644);
    assert_int_equal(fd_read_text_at(temp.fd, "seven", text, sizeof text), 7);
    assert_string_equal(text, "1234567");
    assert_int_equal(fd_read_text_at(temp.fd, "eight", text, sizeof text), -E2BIG);
    assert_int_equal(fd_read_text_at(temp.fd, "none", text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(fd_read_text_at(temp.fd, "missing", text, sizeof text), -ENOENT);
    assert_int_equal(fd_read_text_at(temp.fd, ".", text, sizeof text), -EISDIR);
    temp_remove(&temp);
}

static void text_is_written_only_to_what_is_there(void **)
{
    struct temp temp;
    char text[16];
    temp_make(&temp);
    temp_file(&temp, "limit", "", 0644);
    assert_int_equal(fd_write_text_at(temp.fd, "limit", "123"), 0);
    assert_int_equal(fd_read_text_at(temp.fd, "limit", text, sizeof text), 3);
    assert_string_equal(text, "123");
    assert_int_equal(fd_write_text_at(temp.fd, "missing", "123"), -ENOENT);
    assert_int_equal(faccessat(temp.fd, "missing", F_OK, 0), -1);
    temp_remove(&temp);
}

/* In a child: whether exactly those of the descriptors 40, 41 … 239 are closed that are in a range.
 * So few fit below the soft limit of any user. */
static int close_a_range(void)
{
    enum { FIRST = 40, COUNT = 200, FROM = 60, TO = 220 };
    for (int fd = FIRST; fd < FIRST + COUNT; fd++) {
        if (dup2(STDERR_FILENO, fd) < 0) {
            return 2;
        }
    }
    fd_close_range(FROM, TO);
    for (int fd = FIRST; fd < FIRST + COUNT; fd++) {
        bool open_now = fcntl(fd, F_GETFD) >= 0;
        if (open_now == (fd >= FROM && fd <= TO)) {
            return 3;
        }
    }
    return 0;
}

static int close_all_but_some(void)
{
    static const int kept[] = {47, -1, 3, 45};
    for (int fd = 40; fd < 50; fd++) {
        if (dup2(STDERR_FILENO, fd) < 0) {
            return 2;
        }
    }
    fd_close_others(41, kept, 4);
    for (int fd = 40; fd < 50; fd++) {
        bool open_now = fcntl(fd, F_GETFD) >= 0;
        if (open_now != (fd == 40 || fd == 45 || fd == 47)) {
            return 3;
        }
    }
    return 0;
}

static int close_without_the_call(void)
{
    if (!unit_deny(SYS_close_range, EPERM)) {
        return 2;
    }
    fd_close_range(40, 50);
    return 0;
}

static void range_is_closed_or_the_process_exits(void **)
{
    static int (*const children[])(void) = {close_a_range, close_all_but_some,
                                            close_without_the_call};
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(children[i]());
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), children[i] == close_without_the_call);
    }
}

struct name {
    const char *path;
    int flags;
    int error;
};

static void make_names(struct temp *temp)
{
    temp_make(temp);
    temp_file(temp, "file", "", 0644);
    assert_int_equal(mkdirat(temp->fd, "directory", 0755), 0);
    assert_int_equal(symlinkat("file", temp->fd, "to_file"), 0);
    assert_int_equal(symlinkat("directory", temp->fd, "to_directory"), 0);
    assert_int_equal(symlinkat("/proc/self/cwd", temp->fd, "to_magic"), 0);
}

static void magic_links_lead_nowhere(void **)
{
    static const struct name names[] = {
        {"file", O_RDONLY, 0},
        {"to_file", O_RDONLY, 0},
        {"to_file", O_RDONLY | O_NOFOLLOW, ELOOP},
        {"to_file", O_PATH | O_NOFOLLOW, 0},
        {"to_directory/../file", O_RDONLY, 0},
        {"new", O_WRONLY | O_CREAT | O_EXCL, 0},
        {"new", O_WRONLY | O_CREAT | O_EXCL, EEXIST},
        {"missing", O_RDONLY, ENOENT},
        {"/proc/self/status", O_RDONLY, 0},
        {"/proc/self/cwd", O_PATH, ELOOP},
        {"/proc/self/cwd/file", O_RDONLY, ELOOP},
        {"/proc/self/root/usr", O_PATH, ELOOP},
        {"/proc/self/fd/0", O_PATH, ELOOP},
        {"to_magic", O_PATH, ELOOP},
        {"to_magic/file", O_RDONLY, ELOOP},
    };
    struct temp temp;
    make_names(&temp);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        defer_close int fd = fd_open_named(temp.fd, names[i].path, names[i].flags, 0600);
        assert_int_equal(fd < 0 ? -fd : 0, names[i].error);
        assert_true(fd < 0 || fcntl(fd, F_GETFD) == FD_CLOEXEC);
    }
    temp_remove(&temp);
}

static void nothing_leads_out_of_a_directory_or_through_a_symlink(void **)
{
    static const struct name names[] = {
        {"", O_PATH, 0},
        {"file", O_RDONLY, 0},
        {"directory/../file", O_RDONLY, 0},
        {"..", O_PATH, EXDEV},
        {"/", O_PATH, EXDEV},
        {"to_file", O_RDONLY, ELOOP},
        {"to_file", O_PATH, 0},
        {"to_directory/.", O_PATH, ELOOP},
        {"missing", O_RDONLY, ENOENT},
    };
    struct temp temp;
    make_names(&temp);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        defer_close int fd = fd_open_beneath(temp.fd, names[i].path, names[i].flags);
        assert_int_equal(fd < 0 ? -fd : 0, names[i].error);
        assert_true(fd < 0 || fcntl(fd, F_GETFD) == FD_CLOEXEC);
    }
    temp_remove(&temp);
}

static void straight_path_holds_no_symlink(void **)
{
    static const struct name names[] = {
        {"file", O_RDONLY, 0},
        {"directory", O_PATH | O_DIRECTORY, 0},
        {"file", O_PATH | O_DIRECTORY, ENOTDIR},
        {"to_file", O_RDONLY, ELOOP},
        {"to_directory", O_PATH | O_DIRECTORY, ELOOP},
        {"to_directory/.", O_PATH, ELOOP},
        {"missing", O_PATH, ENOENT},
    };
    struct temp temp;
    make_names(&temp);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char path[PATH_MAX];
        defer_close int fd =
            fd_open_straight(temp_path(&temp, names[i].path, path), names[i].flags);
        assert_int_equal(fd < 0 ? -fd : 0, names[i].error);
        assert_true(fd < 0 || fcntl(fd, F_GETFD) == FD_CLOEXEC);
    }
    temp_remove(&temp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_is_switched_off_and_on),
        cmocka_unit_test(no_pair_leaves_the_numbers_as_they_were),
        cmocka_unit_test(all_is_written_in_as_many_writes_as_it_takes),
        cmocka_unit_test(write_without_a_reader_is_an_error),
        cmocka_unit_test(text_that_fills_the_buffer_is_refused_one_less_fits),
        cmocka_unit_test(text_is_written_only_to_what_is_there),
        cmocka_unit_test(range_is_closed_or_the_process_exits),
        cmocka_unit_test(magic_links_lead_nowhere),
        cmocka_unit_test(straight_path_holds_no_symlink),
        cmocka_unit_test(nothing_leads_out_of_a_directory_or_through_a_symlink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
