#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { SAID_BYTES = 1 << 17 };
static char said[SAID_BYTES];

/* Runs work with stderr as a pipe, in a process of its own because the levels belong to the
 * process, and keeps the output in said. work reads the pipe's other end itself when it needs
 * space. */
static void collect(const char *levels, void (*work)(int reader))
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int r = levels ? setenv("SANDPIPER_LOG", levels, 1) : unsetenv("SANDPIPER_LOG");
        if (r < 0 || dup2(fds[1], STDERR_FILENO) < 0) {
            _exit(9);
        }
        (void)alarm(10); /* a log that blocks ends the child by a signal */
        log_init();
        work(fds[0]);
        _exit(0);
    }
    (void)close(fds[1]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ssize_t n = 0;
    size_t have = 0;
    while ((n = read(fds[0], said + have, sizeof said - 1 - have)) > 0) {
        have += (size_t)n;
    }
    said[have] = '\0';
    (void)close(fds[0]);
}

static void say_each_level(int)
{
    log_error("rpc", "number %d", 1);
    log_warn("rpc", "two");
    log_info("rpc", "three");
    log_trace("tools", "four");
}

static void warnings_and_errors_are_logged_by_default(void **)
{
    collect(NULL, say_each_level);
    assert_string_equal(said, "error rpc number 1\nwarn rpc two\n");
}

static void module_has_its_own_level(void **)
{
    collect("error,tools=trace", say_each_level);
    assert_string_equal(said, "error rpc number 1\ntrace tools four\n");
    collect("tools=error,info", say_each_level);
    assert_string_equal(said, "error rpc number 1\nwarn rpc two\ninfo rpc three\n");
}

static void unknown_words_are_named_and_skipped(void **)
{
    collect("loud,,rpc=info,rpc=,averylongnameofaroom=info", say_each_level);
    assert_string_equal(said,
                        "warn base SANDPIPER_LOG: unknown word \"loud\"\n"
                        "warn base SANDPIPER_LOG: unknown word \"rpc=\"\n"
                        "warn base SANDPIPER_LOG: unknown word \"averylongnameofaroom=info\"\n"
                        "error rpc number 1\nwarn rpc two\ninfo rpc three\n");
}

static void say_words_of_others(int)
{
    log_error("rpc", "%s", "a\nerror rpc b\033[2J\u202e\xff");
}

static void foreign_text_ends_no_line(void **)
{
    collect(NULL, say_words_of_others);
    assert_string_equal(said, "error rpc a\\nerror rpc b\\x1b[2J\\u202e\\udcff\n");
}

static void say_a_long_line(int)
{
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_error("rpc", "%s", text);
    log_error("rpc", "next");
}

static void long_line_is_cut_and_ends_in_a_line_feed(void **)
{
    collect(NULL, say_a_long_line);
    const char *end = strchr(said, '\n');
    assert_non_null(end);
    assert_in_range(end - said, 900, 1023);
    assert_string_equal(end, "\nerror rpc next\n");
}

static void say_more_than_a_pipe_holds(int reader)
{
    static char sink[1 << 17];
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    unsigned written = 0;
    struct pollfd scratch = {.fd = STDERR_FILENO, .events = POLLOUT};
    while (poll(&scratch, 1, 0) == 1) {
        log_error("rpc", "%s", text);
        written++;
    }
    for (unsigned i = 0; i < 7; i++) {
        log_error("rpc", "nobody reads this");
    }
    if (written == 0 || read(reader, sink, sizeof sink) <= 0) {
        _exit(8);
    }
    log_error("rpc", "first");
    log_error("rpc", "second");
}

static void full_stderr_drops_lines_and_counts_them(void **)
{
    collect(NULL, say_more_than_a_pipe_holds);
    assert_string_equal(said, "error rpc (7 lines dropped) first\nerror rpc second\n");
}

static void say_to_nobody(int)
{
    (void)close(STDERR_FILENO);
    log_error("rpc", "gone");
}

static void closed_stderr_stops_nothing(void **)
{
    collect(NULL, say_to_nobody);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_text_ends_no_line),
        cmocka_unit_test(warnings_and_errors_are_logged_by_default),
        cmocka_unit_test(module_has_its_own_level),
        cmocka_unit_test(unknown_words_are_named_and_skipped),
        cmocka_unit_test(long_line_is_cut_and_ends_in_a_line_feed),
        cmocka_unit_test(full_stderr_drops_lines_and_counts_them),
        cmocka_unit_test(closed_stderr_stops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
