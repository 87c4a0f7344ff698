/* sandpiper record: reads what --record has kept. Each record may be anybody's, so what reads one
 * is a program in Python, record/main.py. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "record/record.h"

/* record replay: the sandboxes in which record/replay.py runs what a record says again.
 * A record may be anybody's. It says what runs, and nothing of where: mounts, hosts, servers,
 * isolation and the rest are the user's own. It can only lower limits, and choose the seed.
 *
 * The program in Python is a child with one end of a socket: each of its requests is a line of
 * JSON, and so is each response. */

enum { PIECE_BYTES = 256 * 1024 };

struct replay {
    struct options options;    /* of the sandbox in which it runs; borrows from settings */
    json_t *settings;          /* of the record, or NULL */
    struct own_client *client; /* NULL: none was yet */
    struct own_client *viewer; /* where figures are compared; NULL: none was yet */
    struct record *listener;   /* to both */
    json_t *result;            /* of the cell that ran last, or NULL */
    json_t *installed;         /* by the call before, or NULL */
};

/* --- what the record had --- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* The options as they would be with this value, until the next call; NULL if it is none. */
static struct options *try_value(const struct options *options, const struct flag *flag,
                                 const char *value)
{
    static struct options tried;
    tried = *options;
    flag->take(&tried, flag, value);
    return tried.error[0] ? NULL : &tried;
}

/* Takes a limit of the record where it is lower than the user's own. Returns whether it is
 * higher. */
static bool take_limit(struct options *options, const json_t *row)
{
    static char value[64];
    const struct flag *flag = flag_find(text_of(row, "name"));
    size_t size = strcspn(text_of(row, "value"), ","); /* "768M, from 1G" */
    uint64_t *ours = field_of(options, flag);
    (void)snprintf(value, sizeof value, "%.*s", (int)(size < 32 ? size : 32),
                   text_of(row, "value"));
    struct options *tried = try_value(options, flag, value);
    uint64_t theirs = tried ? *(uint64_t *)field_of(tried, flag) : *ours;
    bool is_higher = theirs > *ours;
    *ours = theirs < *ours ? theirs : *ours;
    return is_higher;
}

static void take_seed(struct options *options, const json_t *row)
{
    struct options *tried = try_value(options, flag_find("seed"), text_of(row, "value"));
    if (!options->spec.seed && strcmp(text_of(row, "source"), "default") != 0 && tried) {
        options->spec.seed = tried->spec.seed;
    }
}

/* New: our own settings, and the positions of those that the record had and that are not taken
 * because they are higher. */
static json_t *take_settings(struct replay *replay, json_t *rows)
{
    struct options *options = &replay->options;
    static const char *const limits[] = {"memory", "disk", "timeout", "max-timeout", NULL};
    struct box_python python = {};
    json_t *ours = effective_settings(options);
    json_t *higher = json_array();
    size_t i = 0;
    json_t *row = NULL;
    json_decref(replay->settings);
    replay->settings = json_incref(rows);
    json_array_foreach (rows, i, row) {
        const char *name = text_of(row, "name");
        if (parse_is_among(name, limits) && take_limit(options, row)) {
            (void)json_array_append_new(higher, json_integer((json_int_t)i));
        } else if (strcmp(name, "seed") == 0) {
            take_seed(options, row);
        }
    }
    box_python_look(&options->spec, &python); /* it may be unknown until it has started */
    return json_pack("{s:o, s:o, s:s}", "settings", ours, "higher", higher, "python",
                     python.version);
}

/* --- calls --- */

static void on_event(void *arg, const char *kind, const json_t *fields)
{
    struct replay *replay = arg;
    bool installs = strcmp(kind, "install") == 0;
    json_t **at = installs                      ? &replay->installed
                  : strcmp(kind, "result") == 0 ? &replay->result
                                                : NULL;
    if (at) {
        json_decref(*at);
        *at = json_incref(installs ? json_object_get(fields, "installed")
                                   : (json_t *)(uintptr_t)fields);
    }
}

/* The figures may be anybody's: another sandbox reads them, in which no code of the record ran. */
static int new_viewer(struct replay *replay, struct fail *ret_fail)
{
    static struct options bare;
    bare = replay->options;
    bare.spec.workspace = bare.spec.cow_store = bare.spec.preload = NULL;
    bare.spec.cow = bare.spec.calls = false;
    bare.spec.mount_count = 0;
    bare.spec.egress = NULL;
    bare.server.tools_file = NULL;
    bare.install.mode = INSTALL_OFF;
    bare.install.preinstall.count = 0;
    return own_client_new(&bare, replay->listener, &replay->viewer, ret_fail);
}

/* New: what a call said, and its events, null where there is none; NULL, after saying why: there is
 * no sandbox. */
static json_t *make_call(struct replay *replay, const json_t *request)
{
    bool views = json_is_true(json_object_get(request, "views"));
    json_t *arguments = json_object_get(request, "arguments");
    json_auto_t *response = NULL;
    struct own_client **client = views ? &replay->viewer : &replay->client;
    struct fail fail = {};
    int r = *client ? 0
            : views ? new_viewer(replay, &fail)
                    : own_client_new(&replay->options, replay->listener, client, &fail);
    if (r < 0) {
        terminal_say("record replay: %s", fail.text[0] ? fail.text : strerror(-r));
        return NULL;
    }
    json_decref(take_ptr(replay->result));
    json_decref(take_ptr(replay->installed));
    if (json_is_object(arguments)) {
        (void)own_client_call(*client, text_of(request, "tool"), arguments, &response);
    }
    return json_pack("{s:O?, s:O?, s:O?}", "response", response, "result", replay->result,
                     "installed", replay->installed);
}

/* --- requests --- */

/* Writes the response to a request. False: the replay ends. */
static bool respond(struct replay *replay, int fd, const char *bytes, size_t size)
{
    json_auto_t *request = json_loadb(bytes, size, JSON_ALLOW_NUL, NULL);
    json_t *settings = json_object_get(request, "settings");
    json_auto_t *response = settings ? take_settings(replay, settings) : make_call(replay, request);
    defer_free char *line = response ? json_dumps(response, JSON_COMPACT) : NULL;
    return line && fd_write_all(fd, line, strlen(line)) == 0 && fd_write_all(fd, "\n", 1) == 0;
}

/* Returns when the program has exited, or cannot go on. */
static void serve(struct replay *replay, int fd)
{
    OWNED(buf_done) struct buf in = BUF_EMPTY;
    char *space = NULL;
    bool goes_on = true;
    while (goes_on && buf_reserve(&in, PIECE_BYTES, &space) == 0) {
        ssize_t size = TEMP_FAILURE_RETRY(read(fd, space, PIECE_BYTES));
        buf_commit(&in, size > 0 ? (size_t)size : 0);
        goes_on = size > 0;
        if (goes_on && space[size - 1] == '\n') { /* of one request, as each awaits its response */
            goes_on = respond(replay, fd, buf_bytes(&in), buf_size(&in));
            buf_clear(&in, PIECE_BYTES);
        }
    }
}

/* Runs what the program pid asks for over the socket fd until it exits. Returns its exit code. */
static int record_replay(const struct options *options, int fd, pid_t pid)
{
    static struct replay replay;
    int status = 0;
    replay.options = *options;
    replay.listener = record_new_listener(on_event, &replay);
    if (replay.listener) {
        serve(&replay, fd);
    }
    own_client_free(replay.client);
    own_client_free(replay.viewer);
    record_free(replay.listener);
    json_decref(replay.result);
    json_decref(replay.installed);
    json_decref(replay.settings);
    (void)shutdown(fd, SHUT_RDWR);
    return TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) == pid && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 1;
}

/* --- the command --- */

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
