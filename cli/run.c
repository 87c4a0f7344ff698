/* sandpiper run: runs a program once, in a sandbox of its own. Its output goes to stdout and
 * stderr; while their readers take none, the sandbox's pipes fill and the program waits. Exit code:
 * the program's; 124 after a timeout, 128 + N after signal N, 125 without a sandbox, 1 if output
 * could not be written. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/word.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"
#include "tools/install/install.h"
#include "tools/servers/tool_server.h"
#include "tools/session/session.h"

enum {
    EXIT_OUTPUT = 1,
    EXIT_TIMEOUT = 124,
    EXIT_NO_SANDBOX = 125,
    EXIT_SIGNAL = 128,
    STALLED_MS = 1000, /* for a reader to take something, after the time limit */
    GONE_SHOWN = 5,
};

/* --- where the program is in its sandbox --- */

/* The program of `sandpiper run`, as its sandbox will see it. */
struct program {
    struct run_program run; /* points into the rest */
    struct buf argv;
    char file[PATH_MAX];
    char directory[PATH_MAX];
};

/* The sandbox's path of a host's real path, or an empty string. */
static void find_in_sandbox(const struct box_spec *spec, const char *path, char out[PATH_MAX])
{
    const char *rest = spec->workspace ? path_behind(path, spec->workspace) : NULL;
    out[0] = '\0';
    if (rest) {
        (void)snprintf(out, PATH_MAX, "%s%s%s", spec->paths.work, *rest ? "/" : "", rest);
    }
    for (unsigned i = 0; i < spec->mount_count && !out[0]; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        rest = path_behind(path, mount->path);
        if (rest && spec->paths.data) {
            (void)snprintf(out, PATH_MAX, "%s/%s%s%s", spec->paths.data, mount->name,
                           *rest ? "/" : "", rest);
        } else if (rest) {
            (void)snprintf(out, PATH_MAX, "%s", path);
        }
    }
}

static int append_argument(struct program *program, const char *argument)
{
    return buf_append(&program->argv, argument, strlen(argument) + 1);
}

/* Finds where the program's file and the current directory are in the sandbox: at their place, if
 * the user shows them by --workspace or --mount, else the file is alone in the workspace in memory
 * (in /tmp, if the workspace is a directory of the user's). To be called when the spec's paths are
 * final. 0 or -errno. */
static int program_locate(struct program *program, const struct options *options)
{
    const struct box_spec *spec = &options->spec;
    const char *file = options->file;
    const char *first = options->code ? "-c" : file;
    defer_free char *here = realpath(".", NULL);
    if (here) {
        find_in_sandbox(spec, here, program->directory);
    }
    if (!options->code && strcmp(file, "-") != 0) {
        defer_free char *path = realpath(file, NULL);
        if (!path) {
            return -errno;
        }
        find_in_sandbox(spec, path, program->file);
        if (!program->file[0]) {
            (void)snprintf(program->file, sizeof program->file, "%s/%s",
                           spec->workspace ? spec->paths.tmp : spec->paths.work, path_last(file));
        }
        first = program->file;
    }
    int r = append_argument(program, first);
    for (int i = 0; r == 0 && i < options->argc; i++) {
        r = append_argument(program, options->argv[i]);
    }
    program->run = (struct run_program){.argv = buf_bytes(&program->argv),
                                        .argv_size = buf_size(&program->argv),
                                        .file = program->file,
                                        .directory = program->directory};
    return r;
}

static void program_done(struct program *program)
{
    buf_done(&program->argv);
}

/* --- the run --- */

/* One of the two streams to the user. */
struct stream {
    struct terminal terminal;
    struct loop_io io; /* while the reader takes nothing */
};

struct once {
    struct loop *loop;
    struct sessions *sessions;
    struct server_box *server_box;
    struct tool_servers *tool_servers;
    struct run *run; /* until it is done */
    struct loop_io signal_io;
    int signal_fd;
    int signal; /* that has interrupted the program; 0: none */
    struct loop_timer stalled;
    struct stream streams[2]; /* stdout and stderr */
    bool keeps_files;         /* in the user's directory, or in a store */
    bool is_cow;
    bool stopped;  /* by a signal, or because output could not be written */
    bool is_alone; /* none of the user's directories is in the sandbox */
    bool has_stdin;
    bool is_file; /* it prints its own traceback */
    bool ended;   /* the program: what is queued remains to be written */
    int code;
};

static int exit_code(const struct run *run)
{
    static const int codes[RUN_OUTCOME_COUNT] = {
        [RUN_OK] = 0,
        [RUN_ERROR] = 1,
        [RUN_TIMEOUT] = EXIT_TIMEOUT,
        [RUN_STOPPED] = 1,
        [RUN_OOM] = EXIT_SIGNAL + SIGKILL,
        [RUN_DISK] = EXIT_SIGNAL + SIGKILL,
        [RUN_CRASHED] = EXIT_SIGNAL,
        [RUN_LOST] = 1,
        [RUN_ENDED] = 1,
        [RUN_CANCELLED] = 1,
        [RUN_REFUSED] = EXIT_NO_SANDBOX,
    };
    bool has_code = run->end.outcome == RUN_EXIT || run->end.outcome == RUN_CRASHED;
    return codes[run->end.outcome] + (has_code ? run->end.process.code : 0);
}

/* --- output --- */

static void stop(struct once *once, int code)
{
    once->stopped = true;
    loop_stop(once->loop, code);
}

/* Prints a line of the server's, or as much of it as the reader takes at once. */
static void tell(struct once *once, const char *text)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    char shown[2048];
    terminal_end(&once->streams[0].terminal);
    terminal_end(&once->streams[1].terminal);
    if (buf_appendf(&line, "sandpiper: %s\n", word_line(text, shown, sizeof shown)) == 0) {
        terminal_write(&once->streams[1].terminal, buf_bytes(&line), buf_size(&line));
    }
}

/* Ends the command when all is written, or cannot be. */
static void check_output(struct once *once)
{
    bool waiting = false;
    for (unsigned i = 0; i < 2; i++) {
        const struct terminal *terminal = &once->streams[i].terminal;
        if (terminal->error && !once->stopped) {
            char text[100];
            (void)snprintf(text, sizeof text, "%s: %s", i == 0 ? "stdout" : "stderr",
                           strerror(terminal->error));
            stop(once, once->ended && once->code ? once->code : EXIT_OUTPUT);
            tell(once, text);
        }
        waiting = waiting || buf_size(&terminal->queue) > 0;
    }
    if (!waiting && once->ended && !once->stopped) {
        loop_stop(once->loop, once->code);
    }
    sessions_hold_output(once->sessions, waiting);
}

/* The user's limit is over, or a signal came, and nothing reads any more. */
static void on_stalled(void *arg)
{
    struct once *once = arg;
    char text[100];
    size_t left = 0;
    for (unsigned i = 0; i < 2; i++) {
        left += buf_size(&once->streams[i].terminal.queue);
    }
    (void)snprintf(text, sizeof text, "%zu bytes of output are lost: nothing has read them", left);
    stop(once, once->code);
    tell(once, text);
}

static void watch_stalled(struct once *once)
{
    if (once->ended && (once->code == EXIT_TIMEOUT || once->signal)) {
        loop_timer_in(once->loop, &once->stalled, STALLED_MS, on_stalled, once);
    }
}

static void on_writable(void *arg, uint32_t)
{
    struct once *once = arg;
    for (unsigned i = 0; i < 2; i++) {
        struct stream *stream = &once->streams[i];
        terminal_flush(&stream->terminal);
        if (buf_size(&stream->terminal.queue) == 0) {
            loop_io_remove(&stream->io);
        }
    }
    watch_stalled(once);
    check_output(once);
}

/* To be called after each write. */
static void watch_stream(struct once *once, struct stream *stream)
{
    if (buf_size(&stream->terminal.queue) > 0 && !stream->io.loop) {
        int r =
            loop_io_add(once->loop, &stream->io, stream->terminal.fd, EPOLLOUT, on_writable, once);
        stream->terminal.error = r < 0 ? -r : 0;
    }
    if (buf_size(&stream->terminal.queue) > 0 || stream->terminal.error) {
        check_output(once);
    }
}

static void print(struct once *once, unsigned stream, const char *bytes, size_t size)
{
    terminal_write(&once->streams[stream].terminal, bytes, size);
    watch_stream(once, &once->streams[stream]);
}

static void print_traceback(struct once *once, const struct run *run)
{
    const struct run_text *text = &run->facts[RUN_TRACEBACK];
    if (text->size > 0) {
        print(once, 1, text->data, text->size);
        if (text->data[text->size - 1] != '\n') {
            print(once, 1, "\n", 1);
        }
    }
}

static void say(struct once *once, const char *text)
{
    tell(once, text);
    watch_stream(once, &once->streams[0]);
    watch_stream(once, &once->streams[1]);
}

/* Names the files that the program has left in a workspace in memory. */
static void tell_gone(struct once *once, const struct run *run)
{
    OWNED(buf_done) struct buf line = BUF_EMPTY;
    struct word_list list = {
        .out = &line, .before = "files gone with the sandbox: ", .most = GONE_SHOWN};
    for (const char *at = NULL; (at = run_next_item(run, RUN_FILES, at));) {
        if (*at != '-' && word_list_next(&list)) {
            (void)word_append(&line, at + 1, strlen(at + 1));
        }
    }
    uint64_t others = 0;
    (void)parse_u64(run_fact(run, RUN_FILES_MORE), &others);
    if (list.count == 0 || once->keeps_files) {
        return;
    }
    list.count += others;
    word_list_end(&list);
    if (buf_append_text(&line, once->is_cow ? "; --cow-store DIR keeps them"
                                            : "; --workspace DIR keeps them") == 0) {
        say(once, buf_text(&line));
    }
}

/* Whether something waits on standard input. A terminal's is for the next program. */
static bool has_input(void)
{
    int size = 0;
    return !isatty(STDIN_FILENO) && ioctl(STDIN_FILENO, FIONREAD, &size) == 0 && size > 0;
}

/* For code that fails for want of a flag, or gets less than it may want. A file has printed its
 * hint itself. Standard input is not read unasked: others may read it after the program, or nobody
 * may ever close it. */
static void tell_hint(struct once *once, const struct run *run)
{
    const char *type = run_fact(run, RUN_ERROR_TYPE);
    const char *hint = run_fact(run, RUN_HINT);
    if (hint[0]) {
        say(once, hint);
    } else if (!once->has_stdin && has_input()) {
        say(once, "the program got no standard input; --stdin passes it on");
    } else if (once->is_alone &&
               (strcmp(type, "ModuleNotFoundError") == 0 || strcmp(type, "ImportError") == 0 ||
                strcmp(type, "FileNotFoundError") == 0)) {
        say(once,
            "none of your files is in the sandbox; --workspace DIR lets code use a directory");
    }
}

/* The other notes are for a model; an import that fails before the program is for its user. */
static void tell_preload(struct once *once, const struct run *run)
{
    for (const char *at = NULL; (at = run_next_item(run, RUN_NOTES, at));) {
        if (strstr(at, "--preload ")) {
            say(once, at);
        }
    }
}

static void tell_protection(struct once *once)
{
    OWNED(buf_done) struct buf note = BUF_EMPTY;
    char text[400];
    char line[500];
    server_box_protection(once->server_box, &note);
    if (buf_size(&note) > 0) {
        (void)snprintf(line, sizeof line, "workspace: %.399s", buf_text(&note));
        say(once, line);
    }
    server_box_protected_news(once->server_box, text, sizeof text);
    if (text[0]) {
        (void)snprintf(line, sizeof line,
                       "changed settings on which programs outside the sandbox act: %s", text);
        say(once, line);
    }
}

static void on_done(void *arg, struct run *run)
{
    struct once *once = arg;
    OWNED(buf_done) struct buf status = BUF_EMPTY;
    once->run = NULL;
    if (once->stopped) {
        run_free(run);
        return;
    }
    const char *error = sessions_preinstall_error(once->sessions);
    if (error[0]) {
        say(once, error);
    }
    if (!once->is_file || run->end.outcome == RUN_ERROR) {
        print_traceback(once, run);
    }
    tell_hint(once, run);
    tell_preload(once, run);
    tell_protection(once);
    if (run->end.outcome == RUN_REFUSED) {
        say(once, run_fact(run, RUN_REFUSAL));
    } else if (run->end.outcome != RUN_OK && run->end.outcome != RUN_EXIT &&
               run->end.outcome != RUN_ERROR && run->end.outcome != RUN_STOPPED) {
        if (run_compose_status(run, &status) == 0) {
            say(once, buf_text(&status));
        }
    }
    tell_gone(once, run);
    for (unsigned i = 0; i < 2; i++) {
        terminal_end(&once->streams[i].terminal);
        watch_stream(once, &once->streams[i]);
    }
    once->code = run->end.outcome == RUN_STOPPED ? EXIT_SIGNAL + once->signal : exit_code(run);
    once->ended = true;
    run_free(run);
    watch_stalled(once);
    check_output(once);
}

static void on_output(void *arg, unsigned stream, const char *bytes, size_t size)
{
    struct once *once = arg;
    if (!once->ended && !once->stopped) {
        print(once, stream == BOX_STDERR, bytes, size);
    }
}

/* The first SIGINT or SIGTERM interrupts the program, so that its `finally` runs; the next, or one
 * that comes while nobody reads the output, ends it. */
static void on_signal(void *arg, uint32_t)
{
    struct once *once = arg;
    struct signalfd_siginfo info = {};
    (void)read(once->signal_fd, &info, sizeof info);
    bool stalls = buf_size(&once->streams[0].terminal.queue) > 0 ||
                  buf_size(&once->streams[1].terminal.queue) > 0;
    if (once->run && !once->signal && !stalls && info.ssi_signo != SIGHUP) {
        once->signal = (int)info.ssi_signo;
        sessions_stop(once->sessions, once->run);
    } else {
        stop(once, EXIT_SIGNAL + (int)info.ssi_signo);
    }
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

/* Carries out the run. Returns the exit code, or -errno. */
static int run_once(struct once *once, const struct options *options, struct run *run)
{
    struct installs *installs = NULL;
    int r = sessions_new(once->loop, once->server_box, &once->sessions);
    if (r == 0 && options->install.preinstall.count > 0) {
        r = sessions_new_installs(once->sessions, &options->install, /* record= */ NULL, &installs);
    }
    if (r == 0 && options->server.tools_file) {
        r = tool_servers_new(once->loop, &options->spec, options->server.tools_file,
                             SANDPIPER_VERSION, &once->tool_servers);
        sessions_set_tool_servers(once->sessions, once->tool_servers);
    }
    run->request.timeout_ms = options->server.timeout_ms;
    run->on_done = on_done;
    run->on_output = on_output;
    run->arg = once;
    r = r ? r : sessions_run(once->sessions, NULL, run);
    if (r < 0) {
        run_free(run);
    } else {
        once->run = once->ended ? NULL : run;
        r = loop_run(once->loop);
    }
    installs_free(installs);
    return r;
}

static void once_done(struct once *once)
{
    server_box_free(once->server_box);
    sessions_free(once->sessions);
    tool_servers_free(once->tool_servers);
    loop_io_remove(&once->signal_io);
    loop_timer_disarm(&once->stalled);
    for (unsigned i = 0; i < 2; i++) {
        loop_io_remove(&once->streams[i].io);
        terminal_done(&once->streams[i].terminal);
    }
    loop_free(once->loop);
}

int command_run(const struct options *options)
{
    OWNED(buf_done) struct buf code = BUF_EMPTY;
    OWNED(buf_done) struct buf input = BUF_EMPTY;
    OWNED(program_done) struct program program = {};
    struct options with_guest = *options;
    struct once once = {.signal_fd = -1, .is_cow = options->spec.cow};
    struct box_scratch *scratch = NULL;
    struct box_store *store = NULL;
    struct run *run = NULL;
    struct fail fail = {};
    terminal_init(&once.streams[0].terminal, STDOUT_FILENO);
    terminal_init(&once.streams[1].terminal, STDERR_FILENO);
    with_guest.spec.guest = guest_catalog;
    with_guest.spec.separate_streams = true;
    char main[PATH_MAX];
    struct stat st;
    if (options->file && stat(options->file, &st) == 0 && S_ISDIR(st.st_mode) &&
        snprintf(main, sizeof main, "%s/__main__.py", options->file) < PATH_MAX) {
        with_guest.file = main;
    }
    options = &with_guest;
    int r = read_code(options, &code);
    if (r < 0) {
        terminal_say("%s: %s", options->file ? options->file : "-c", strerror(-r));
        return 2;
    }
    r = options->hand_on_stdin ? input_read(STDIN_FILENO, &input) : 0;
    r = r ? r : loop_new(&once.loop);
    r = r ? r
          : shutdown_watch_signals(once.loop, &once.signal_io, &once.signal_fd, on_signal, &once);
    r = r ? r : box_scratch_open(&with_guest.spec, &scratch, &fail);
    r = r ? r : box_store_open(&with_guest.spec, &store, &fail);
    r = r ? r : program_locate(&program, &with_guest);
    r = r ? r : server_box_new(once.loop, &with_guest.spec, NULL, NULL, &once.server_box);
    if (r == 0) {
        run = run_new(buf_bytes(&code), buf_size(&code),
                      options->hand_on_stdin ? buf_bytes(&input) : NULL, buf_size(&input));
        r = run ? 0 : -ENOMEM;
    }
    const struct box_spec *spec = &with_guest.spec;
    once.keeps_files = box_spec_files_stay(spec);
    once.is_alone = !spec->workspace && spec->mount_count == 0;
    once.has_stdin = options->hand_on_stdin;
    if (run) {
        run->request.program = &program.run;
        once.is_file = program.file[0] != '\0';
        r = run_once(&once, options, run);
    }
    once_done(&once);
    box_store_close(store);
    box_scratch_close(scratch);
    if (fail.text[0]) {
        terminal_say("%s", fail.text);
    }
    return r < 0 ? EXIT_NO_SANDBOX : r;
}
