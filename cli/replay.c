/* sandpiper record replay: the sandboxes in which record/replay.py runs what a record says again.
 * A record may be anybody's. It says what runs, and nothing of where: mounts, hosts, servers,
 * isolation and the rest are the user's own. It can only lower limits, and choose the seed.
 *
 * The program in Python is a child with one end of a socket: each of its requests is a line of
 * JSON, and so is each response. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/own_client.h"
#include "cli/terminal.h"

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

int record_replay(const struct options *options, int fd, pid_t pid)
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
