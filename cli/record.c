/* sandpiper record: reads what --record has kept. Each record may be anybody's, so what reads one
 * is a program in Python, record/main.py. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/outside_python.h"
#include "cli/terminal.h"
#include "record/directory.h"

enum { EXIT_USAGE = 2, WORDS_MOST = 24 };

extern const struct embedded record_zip[]; /* record/meson.build */

/* The arguments of the program: pairs of a name and a value. */
struct words {
    const char *at[WORDS_MOST];
    unsigned count;
};

static void add(struct words *words, const char *name, const char *value)
{
    if (value) {
        words->at[words->count++] = name;
        words->at[words->count++] = value;
    }
}

/* A descriptor that the program inherits. */
static void add_fd(struct words *words, const char *name, int fd, char text[16])
{
    (void)fcntl(fd, F_SETFD, 0);
    (void)snprintf(text, 16, "%d", fd);
    add(words, name, text);
}

/* Opens the directory that was named, or that of --record. Its descriptor or -1, and says why. */
static int open_directory(const struct options *options)
{
    const char *file = options->records.file;
    const char *directory = file ? file : options->record.directory;
    char path[PATH_MAX];
    struct fail fail = {};
    struct box_spec spec;
    box_spec_init(&spec);
    if (!directory) {
        terminal_say("record: name a FILE, or the directory with --record DIR");
        return -1;
    }
    int r = box_apart_resolve(&spec, "--record", directory, path, &fail);
    int fd = r < 0 ? r : record_directory_open(path, /* create= */ false, &fail);
    if (fd < 0) {
        terminal_say("record: %s", fail_text(&fail));
    }
    return fd < 0 ? -1 : fd;
}

/* What decides which interpreter can be trusted: code may have written to the workspace, also where
 * this command does not use it. path: for the spec. */
static struct box_spec spec_of(const struct options *options, char path[PATH_MAX])
{
    struct box_spec spec = options->spec;
    struct fail none = {};
    spec.workspace = spec.workspace ? spec.workspace : options->records.workspace;
    if (box_workspace_resolve(&spec, path, &none) < 0) {
        spec.workspace = NULL;
    }
    return spec;
}

/* Runs the program as a child, and serves it. */
static int replay(const struct options *options, const struct box_spec *spec,
                  const struct outside_program *program, struct words *words)
{
    char text[16];
    defer_close_pair int ends[2] = {-1, -1};
    pid_t pid = fd_socketpair(SOCK_STREAM, ends) < 0 ? -1 : fork();
    if (pid == 0) {
        add_fd(words, "server", ends[1], text);
        add(words, "tools", options->server.tools_file ? "" : NULL);
        _exit(outside_python_run(spec, program));
    }
    if (pid < 0) {
        terminal_say("record replay: %s", strerror(errno));
        return 1;
    }
    drop_fd(&ends[1]);
    return record_replay(options, ends[0], pid);
}

int command_record(const struct options *options)
{
    char directory[16];
    char workspace[PATH_MAX];
    struct stat st;
    const char *action = options->records.action;
    const char *file = options->records.file;
    struct words words = {};
    const struct outside_program program = {"record", record_zip, words.at};
    bool is_file =
        strcmp(action, "list") != 0 && file && (stat(file, &st) < 0 || !S_ISDIR(st.st_mode));
    defer_close int fd = is_file ? -1 : open_directory(options);
    if (!is_file && fd < 0) {
        return EXIT_USAGE;
    }
    add(&words, "action", action);
    add(&words, "cell", options->records.cell);
    add(&words, "format", options->records.format);
    add(&words, "output", options->records.output);
    add(&words, "session", options->records.session);
    add(&words, "force", options->records.force ? "" : NULL);
    if (is_file) {
        add(&words, "file", file);
    } else {
        add_fd(&words, "directory", fd, directory);
    }
    const struct box_spec spec = spec_of(options, workspace);
    return strcmp(action, "replay") == 0 ? replay(options, &spec, &program, &words)
                                         : outside_python_run(&spec, &program);
}
