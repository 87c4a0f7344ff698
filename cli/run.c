/* sandpiper run: code once, in a sandbox of its own. Output goes where the code sent it, the exit
 * code is the code's; 124 after a timeout, 128 + N after signal N, 125 when there is no sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/endings.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"
#include "tools/install.h"
#include "tools/session.h"

enum { EXIT_TIMEOUT = 124, EXIT_NO_SANDBOX = 125, EXIT_SIGNAL = 128 };

struct once {
    struct loop *loop;
    struct sessions *sessions;
    struct workspace *workspace;
    struct loop_io signal_io;
    int signal_fd;
    struct terminal out;
    struct terminal err;
};

static int exit_code(const struct run *run)
{
    switch (run->outcome) {
    case RUN_OK:
        return 0;
    case RUN_EXIT:
        return run->code_number;
    case RUN_TIMEOUT:
        return EXIT_TIMEOUT;
    case RUN_CRASHED:
        return EXIT_SIGNAL + run->code_number;
    case RUN_OOM:
    case RUN_DISK:
        return EXIT_SIGNAL + SIGKILL;
    case RUN_REFUSED:
        return EXIT_NO_SANDBOX;
    case RUN_ERROR:
    case RUN_LOST:
    case RUN_ENDED:
    case RUN_CANCELLED:
    case RUN_OUTCOME_COUNT:
    default:
        return 1;
    }
}

static void print_traceback(struct once *once, const struct run *run)
{
    const struct run_text *text = &run->parts[RUN_TRACEBACK];
    if (text->size > 0) {
        (void)terminal_write(&once->err, text->data, text->size);
        if (text->data[text->size - 1] != '\n') {
            (void)terminal_write(&once->err, "\n", 1);
        }
    }
}

/* A line of ours. */
static void say(struct once *once, const char *text)
{
    (void)terminal_end(&once->out);
    (void)terminal_end(&once->err);
    terminal_say("%s", text);
}

static void tell_protection(struct once *once)
{
    char text[400];
    char line[500];
    workspace_protection(once->workspace, text, sizeof text);
    if (text[0]) {
        (void)snprintf(line, sizeof line, "workspace: %s", text);
        say(once, line);
    }
    workspace_protected_news(once->workspace, text, sizeof text);
    if (text[0]) {
        (void)snprintf(line, sizeof line, "changed settings, on which programs outside act: %s",
                       text);
        say(once, line);
    }
}

static void on_done(void *arg, struct run *run)
{
    struct once *once = arg;
    OWNED(buf_done) struct buf status = BUF_EMPTY;
    const char *trouble = sessions_preinstall_trouble(once->sessions);
    if (trouble[0]) {
        say(once, trouble);
    }
    print_traceback(once, run);
    tell_protection(once);
    if (run->outcome == RUN_REFUSED) {
        say(once, run->text);
    } else if (run->outcome != RUN_OK && run->outcome != RUN_EXIT && run->outcome != RUN_ERROR) {
        run->state = RUN_STATE_KEPT;
        if (run_compose_status(run, &status) == 0 && buf_append(&status, "", 1) == 0) {
            say(once, buf_bytes(&status));
        }
    }
    loop_stop(once->loop, exit_code(run));
    run_free(run);
}

static void on_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct once *once = arg;
    (void)terminal_write(stream == BOX_STDERR ? &once->err : &once->out, bytes, size);
}

static void on_signal(void *arg, uint32_t events)
{
    struct once *once = arg;
    struct signalfd_siginfo info = {};
    (void)events;
    (void)read(once->signal_fd, &info, sizeof info);
    loop_stop(once->loop, EXIT_SIGNAL + (int)info.ssi_signo);
}

static int read_code(const struct options *options, struct buf *code)
{
    if (options->code) {
        return buf_append_text(code, options->code);
    }
    if (strcmp(options->file, "-") == 0) {
        return input_read(STDIN_FILENO, code);
    }
    defer_close int fd = open(options->file, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : input_read(fd, code);
}

static int take_signals(struct once *once)
{
    once->signal_fd = endings_signal_fd();
    return once->signal_fd < 0 ? once->signal_fd
                               : loop_io_add(once->loop, &once->signal_io, once->signal_fd, EPOLLIN,
                                             on_signal, once);
}

/* Packages that are to be there: --preinstall. */
static int take_installs(struct once *once, struct workspace *workspace,
                         const struct install_config *config, struct installs **ret_installs)
{
    struct fail fail = {};
    if (config->preinstall.count == 0) {
        return 0;
    }
    int r = installs_new(once->loop, workspace, config, sessions_spills(once->sessions),
                         ret_installs, &fail);
    if (r == 0) {
        sessions_set_installs(once->sessions, *ret_installs);
    } else {
        terminal_say("%s", fail.text);
    }
    return r;
}

int command_run(const struct options *options)
{
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    OWNED(buf_done) struct buf input = BUF_EMPTY;
    struct options with_guest = *options;
    struct workspace *workspace = NULL;
    struct installs *installs = NULL;
    struct once once = {.signal_fd = -1};
    struct box_room *room = NULL;
    struct fail fail = {};
    terminal_init(&once.out, STDOUT_FILENO);
    terminal_init(&once.err, STDERR_FILENO);
    with_guest.spec.guest = guest_catalog;
    with_guest.spec.separate_streams = true;
    int r = read_code(options, &code);
    if (r < 0) {
        terminal_say("%s: %s", options->file ? options->file : "-c", strerror(-r));
        return 2;
    }
    r = options->hand_on_stdin ? input_read(STDIN_FILENO, &input) : 0;
    r = r ? r : loop_new(&once.loop);
    r = r ? r : take_signals(&once);
    r = r ? r : box_room_open(&with_guest.spec, &room, &fail);
    r = r ? r : workspace_new(once.loop, &with_guest.spec, &workspace);
    once.workspace = workspace;
    r = r ? r : sessions_new(once.loop, workspace, &once.sessions);
    r = r ? r : take_installs(&once, workspace, &options->install, &installs);
    struct run *run = r == 0
                          ? run_new(buf_bytes(&code), buf_size(&code),
                                    buf_size(&input) ? buf_bytes(&input) : NULL, buf_size(&input))
                          : NULL;
    if (run) {
        run->timeout_ms = options->timeout_ms;
        run->on_done = on_done;
        run->on_output = on_output;
        run->arg = &once;
        r = sessions_run(once.sessions, NULL, run);
        r = r < 0 ? r : loop_run(once.loop);
    }
    installs_free(installs);
    workspace_free(workspace);
    sessions_free(once.sessions);
    box_room_close(room);
    loop_io_remove(&once.signal_io);
    loop_free(once.loop);
    (void)terminal_end(&once.out);
    (void)terminal_end(&once.err);
    if (fail.text[0]) {
        terminal_say("%s", fail.text);
    }
    return r < 0 ? EXIT_NO_SANDBOX : r;
}
