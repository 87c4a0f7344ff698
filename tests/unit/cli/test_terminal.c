#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static char got[4096];

/* What arrives at the other end of a terminal that translates nothing, with text written in
 * pieces. */
static const char *through_terminal(const char *text, size_t size, size_t piece)
{
    struct termios raw;
    struct terminal terminal;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    assert_int_equal(tcgetattr(slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
    terminal_init(&terminal, slave);
    assert_true(terminal.filters);
    for (size_t at = 0; at < size; at += piece) {
        terminal_write(&terminal, text + at, size - at < piece ? size - at : piece);
    }
    terminal_end(&terminal);
    assert_int_equal(terminal.error, 0);
    assert_int_equal(buf_size(&terminal.queue), 0);
    terminal_done(&terminal);
    (void)close(slave);
    size_t have = 0;
    ssize_t n = 0;
    while ((n = read(master, got + have, sizeof got - 1 - have)) > 0) { /* EIO: no slave, pty(7) */
        have += (size_t)n;
    }
    got[have] = '\0';
    (void)close(master);
    return got;
}

static void expect(const char *text, const char *shown)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        assert_string_equal(through_terminal(text, strlen(text), piece), shown);
    }
}

static void text_and_colours_pass(void **)
{
    expect("plain ünï 日本 🙂\ta\r\n", "plain ünï 日本 🙂\ta\r\n");
    expect("\033[1;31mred\033[0m\n", "\033[1;31mred\033[0m\n\033[0m");
}

static void control_characters_are_made_visible(void **)
{
    expect("\033]52;c;eA==\a.\n", "\\x1b]52;c;eA==\\x07.\n");
    expect("\033[2J\033[6n\033c\n", "\\x1b[2J\\x1b[6n\\x1bc\n");
    expect(
        "\xc2\x9b"
        "2J\xff\x9b"
        "2J\n",
        "\\x9b2J\\udcff\\udc9b2J\n");
    expect("a\u202Eb\177\b\n", "a\\u202eb\\x7f\\x08\n");
    expect("\033[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m",
           "\\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m");
    assert_string_equal(through_terminal("a\0b", 3, 1), "a\\x00b");
}

static void an_incomplete_character_is_written_at_the_end(void **)
{
    expect("a\033[3", "a\\x1b[3");
    expect("a\xe2\x82", "a\\udce2\\udc82");
}

static void pipe_gets_the_bytes(void **)
{
    int fds[2];
    char bytes[32];
    struct terminal terminal;
    assert_int_equal(pipe(fds), 0);
    terminal_init(&terminal, fds[1]);
    terminal_write(&terminal, "\033]52;c;\a\0\xff", 10);
    terminal_end(&terminal);
    assert_int_equal(terminal.error, 0);
    assert_int_equal(read(fds[0], bytes, sizeof bytes), 10);
    assert_memory_equal(bytes, "\033]52;c;\a\0\xff", 10);
    (void)close(fds[0]);
    (void)close(fds[1]);
    terminal_done(&terminal);
}

/* The pipe is as blocking as it was. */
static void what_the_reader_does_not_take_is_queued(void **)
{
    enum { SIZE = 300000 };
    static char sent[SIZE];
    static char received[SIZE];
    struct terminal terminal;
    int fds[2];
    size_t have = 0;
    for (size_t i = 0; i < SIZE; i++) {
        sent[i] = (char)('a' + i % 23);
    }
    assert_int_equal(pipe(fds), 0);
    terminal_init(&terminal, fds[1]);
    terminal_write(&terminal, sent, SIZE);
    assert_true(buf_size(&terminal.queue) > 0);
    terminal_end(&terminal);
    while (have < SIZE) {
        ssize_t size = read(fds[0], received + have, SIZE - have);
        assert_true(size > 0);
        have += (size_t)size;
        terminal_flush(&terminal);
    }
    assert_memory_equal(received, sent, SIZE);
    assert_int_equal(buf_size(&terminal.queue), 0);
    assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
    (void)close(fds[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    terminal_write(&terminal, "x", 1);
    assert_int_equal(terminal.error, EPIPE);
    assert_int_equal(buf_size(&terminal.queue), 0);
    (void)close(fds[1]);
    terminal_done(&terminal);
}

static void a_full_device_is_an_error(void **)
{
    struct terminal terminal;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    terminal_init(&terminal, fd);
    terminal_write(&terminal, "x", 1);
    assert_int_equal(terminal.error, ENOSPC);
    (void)close(fd);
    terminal_done(&terminal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_colours_pass),
        cmocka_unit_test(control_characters_are_made_visible),
        cmocka_unit_test(an_incomplete_character_is_written_at_the_end),
        cmocka_unit_test(pipe_gets_the_bytes),
        cmocka_unit_test(what_the_reader_does_not_take_is_queued),
        cmocka_unit_test(a_full_device_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
