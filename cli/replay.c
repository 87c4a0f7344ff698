/* sandpiper record replay: runs what a record says again, in a new sandbox, and compares. A record
 * may be anybody's. It says what runs, and nothing of where: mounts, hosts, servers, isolation and
 * the rest are the user's own. It can only lower limits, and choose the seed. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/embed.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/own_client.h"
#include "cli/terminal.h"
#include "record/escape.h"
#include "record/export.h"
#include "record/show.h"

extern const struct embedded pixels[]; /* pixels.py */

struct replay {
    const struct record_book *book;
    const struct options *options; /* of the sandbox in which it runs */
    struct own_client *client;
    struct own_client *viewer; /* where figures are compared; NULL: none was yet */
    struct record *listener;   /* to both */
    json_t *result;            /* of the cell that ran last, or NULL */
    json_t *installed;         /* by the call before, or NULL */
    unsigned same;
    unsigned different;
    unsigned failed;
    unsigned not_run;
};

static void print(const struct buf *text)
{
    (void)fwrite(buf_bytes(text), 1, buf_size(text), stdout);
    (void)fflush(stdout); /* a cell may take its time */
}

/* --- what the record had --- */

static bool is_default(const json_t *row)
{
    return strcmp(record_text(row, "source"), "default") == 0;
}

/* The first of our settings with this name, and this value unless it is NULL; NULL: none. */
static const json_t *find_setting(const json_t *rows, const char *name, const char *value)
{
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach (rows, i, row) {
        if (strcmp(record_text(row, "name"), name) == 0 &&
            (!value || strcmp(record_text(row, "value"), value) == 0)) {
            return row;
        }
    }
    return NULL;
}

static void append_lack(struct buf *out, const json_t *row, const json_t *ours)
{
    record_fill(out, row, "the record had --{name} {value}", record_escape_line);
    if (ours) {
        buf_appendf(out, ", replay has %s\n", record_text(ours, "value"));
    } else {
        buf_append_text(out, ", replay lacks it\n");
    }
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

/* Takes a limit of the record where it is lower than the user's own. */
static void take_limit(struct options *options, const json_t *rows, const json_t *row,
                       struct buf *out)
{
    static char value[64];
    const struct flag *flag = flag_find(record_text(row, "name"));
    size_t size = strcspn(record_text(row, "value"), ","); /* "768M, from 1G" */
    uint64_t *ours = field_of(options, flag);
    (void)snprintf(value, sizeof value, "%.*s", (int)(size < 32 ? size : 32),
                   record_text(row, "value"));
    struct options *tried = try_value(options, flag, value);
    uint64_t theirs = tried ? *(uint64_t *)field_of(tried, flag) : *ours;
    if (theirs < *ours) {
        *ours = theirs;
    } else if (theirs > *ours) {
        append_lack(out, row, find_setting(rows, flag->name, NULL));
    }
}

static void take_seed(struct options *options, const json_t *row)
{
    struct options *tried = try_value(options, flag_find("seed"), record_text(row, "value"));
    if (!options->spec.seed && !is_default(row) && tried) {
        options->spec.seed = tried->spec.seed;
    }
}

/* Takes what may be taken of the record's settings, and says what else it had. */
static void take_settings(struct options *options, const struct record_book *book)
{
    static const char *const limits[] = {"memory", "disk", "timeout", "max-timeout", NULL};
    static const char *const named[] = {
        "workspace",       "cow",        "mount",      "allow-host",   "tools",
        "python",          "preload",    "preinstall", "auto-install", "index-url",
        "extra-index-url", "find-links", NULL};
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    struct box_python python = {};
    json_auto_t *ours = effective_settings(options);
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach (json_object_get(book->start, "settings"), i, row) {
        const char *name = record_text(row, "name");
        if (parse_is_among(name, limits)) {
            take_limit(options, ours, row, &out);
        } else if (strcmp(name, "seed") == 0) {
            take_seed(options, row);
        } else if (parse_is_among(name, named) && !is_default(row) &&
                   !find_setting(ours, name, record_text(row, "value"))) {
            append_lack(&out, row, NULL);
        }
    }
    box_python_look(&options->spec, &python);
    const char *version = record_text(book->start, "python");
    /* Ours may be unknown until it has started. */
    if (version[0] && python.version[0] && strcmp(version, python.version) != 0) {
        record_fill(&out, book->start, "the record had CPython {python}", record_escape_line);
        buf_appendf(&out, ", replay has %s\n", python.version);
    }
    print(&out);
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

/* Makes a call of the model's again. arguments: stolen. Its response, new, or NULL. */
static json_t *make_call(struct replay *replay, struct own_client *client, const char *tool,
                         json_t *arguments)
{
    json_auto_t *owned = arguments;
    json_t *response = NULL;
    json_decref(take_ptr(replay->result));
    json_decref(take_ptr(replay->installed));
    return own_client_call(client, tool, owned, &response) == 0 ? response : NULL;
}

static bool is_refused(const json_t *response)
{
    const json_t *result = json_object_get(response, "result");
    return !result || json_is_true(json_object_get(result, "isError"));
}

/* Appends what the response says, on a line: in place of a result. */
static void append_response(struct buf *out, const json_t *response)
{
    const json_t *content = json_object_get(json_object_get(response, "result"), "content");
    const char *text = record_text(json_array_get(content, 0), "text");
    const char *message = record_text(json_object_get(response, "error"), "message");
    text = message[0] ? message : text[0] ? text : "the server did not respond";
    record_escape_line(out, text, strlen(text));
}

/* The figures may be anybody's: another sandbox reads them, in which no code of the record ran. */
static bool same_pixels(void *arg, const char *one, const char *other)
{
    static struct options bare;
    struct replay *replay = arg;
    struct fail fail = {};
    json_auto_t *kept = take_ptr(replay->result);
    if (!replay->viewer) {
        bare = *replay->options;
        bare.spec.workspace = bare.spec.cow_store = bare.spec.preload = NULL;
        bare.spec.cow = bare.spec.calls = false;
        bare.spec.mount_count = 0;
        bare.spec.egress = NULL;
        bare.server.tools_file = NULL;
        bare.install.mode = INSTALL_OFF;
        bare.install.preinstall.count = 0;
        if (own_client_new(&bare, replay->listener, &replay->viewer, &fail) < 0) {
            return false;
        }
    }
    OWNED(buf_done) struct buf both = BUF_EMPTY;
    buf_appendf(&both, "%s\n%s\n", one, other);
    json_decref(make_call(replay, replay->viewer, "run_python",
                          json_pack("{s:s, s:s#, s:b}", "code", (const char *)pixels[0].data,
                                    "stdin", buf_bytes(&both), (int)buf_size(&both), "fresh", 1)));
    bool same = strcmp(record_text(replay->result, "value"), "True") == 0;
    json_decref(replay->result);
    replay->result = take_ptr(kept);
    return same;
}

/* --- cells --- */

/* Why the cell does not run, or NULL. */
static const char *why_not(const struct replay *replay, const struct record_entry *entry)
{
    const char *outcome = record_text(entry->result, "outcome");
    return !entry->result ? "the record has no result of it"
           : json_object_get(entry->event, "code_sha256")
               ? "the record has only the hash of its code"
           : strcmp(outcome, "cancelled") == 0 ? "it was cancelled"
           : strcmp(outcome, "stopped") == 0   ? "it was stopped"
           : record_text(entry->result, "tools")[0] && !replay->options->server.tools_file
               ? "it called tools of other servers; --tools FILE on the command line lets it"
               : NULL;
}

/* New: the arguments of its call. runs: with its code; else with code that does nothing, so that
 * later cells have their numbers. */
static json_t *arguments_of(const struct record_entry *entry, bool runs)
{
    const char *session = record_text(entry->event, "session");
    const json_t *code = json_object_get(entry->event, "code");
    const json_t *recorded = json_object_get(entry->event, "arguments");
    json_t *arguments = recorded ? json_copy((json_t *)(uintptr_t)recorded) : json_object();
    (void)json_object_del(arguments, "wait_s");
    (void)json_object_set_new(arguments, "code",
                              runs && code ? json_incref((json_t *)(uintptr_t)code)
                                           : json_string(runs ? "" : "pass"));
    if (session[0]) {
        (void)json_object_set_new(arguments, "session", json_string(session));
    }
    return arguments;
}

/* Appends how the cell went, and returns where that is counted. */
static unsigned *compare_cell(struct replay *replay, const struct record_entry *entry,
                              const json_t *response, struct buf *out)
{
    OWNED(buf_done) struct buf diff = BUF_EMPTY;
    const char *refused = record_text(replay->result, "refusal");
    bool was_refused = strcmp(record_text(entry->result, "outcome"), "refused") == 0;
    if (!replay->result || (refused[0] && !was_refused)) {
        buf_append_text(out, ": failed: ");
        append_response(out, response);
        buf_append_text(out, "\n");
        return &replay->failed;
    }
    bool same = record_compare(entry->result, replay->result, same_pixels, replay, &diff);
    buf_append_text(out, same ? ": same\n" : ": different\n");
    buf_append_buf(out, &diff);
    return same ? &replay->same : &replay->different;
}

static void append_name(struct buf *out, const struct record_entry *entry)
{
    const char *session = record_text(entry->event, "session");
    record_title(entry, out);
    if (session[0] && strcmp(session, "default") != 0) {
        record_fill(out, entry->event, " of session {session}", record_escape_line);
    }
}

/* A call that ran no code, such as an undo alone, is named only if it goes another way. */
static void replay_cell(struct replay *replay, const struct record_entry *entry)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    bool is_cell = record_number(entry->event, "cell", 0) > 0;
    const char *why = why_not(replay, entry);
    if (why && !is_cell) {
        return;
    }
    json_auto_t *response =
        make_call(replay, replay->client, "run_python", arguments_of(entry, !why));
    unsigned *count = &replay->not_run;
    append_name(&out, entry);
    if (why) {
        buf_appendf(&out, ": not run (%s)\n", why);
    } else {
        count = compare_cell(replay, entry, response, &out);
    }
    if (is_cell || count != &replay->same) {
        ++*count;
        print(&out);
    }
}

/* --- other calls --- */

/* Says of a call what becomes of it, and counts that as a difference. */
static void say_other(struct replay *replay, const struct record_entry *entry, const char *what,
                      const json_t *response)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    record_title(entry, &out);
    buf_append_text(&out, what);
    if (response) {
        append_response(&out, response);
    }
    buf_append_text(&out, "\n");
    print(&out);
    ++*(response ? &replay->failed : &replay->not_run);
}

static void replay_write(struct replay *replay, const struct record_entry *entry)
{
    json_t *arguments = json_object_get(entry->event, "arguments");
    if (json_object_get(entry->event, "cut")) {
        say_other(replay, entry, ": not run (the record has only a part of the content)", NULL);
        return;
    }
    json_auto_t *response = make_call(replay, replay->client, "write_file", json_incref(arguments));
    if (is_refused(response)) {
        say_other(replay, entry, ": failed: ", response);
    }
}

/* The event of the installation that the call has caused: the last one of the same packages. NULL:
 * all were installed. */
static const json_t *find_install(const struct record_entry *entry,
                                  const struct record_entry *first)
{
    const json_t *arguments = json_object_get(entry->event, "arguments");
    const json_t *packages = json_object_get(arguments, "packages");
    while (entry-- != first && strcmp(record_text(entry->event, "tool"), "install_package") != 0) {
        if (strcmp(entry->kind, "install") == 0 && packages &&
            json_equal(json_object_get(entry->event, "packages"), packages)) {
            return json_object_get(entry->event, "installed");
        }
    }
    return NULL;
}

/* Installs the same versions. */
static void replay_install(struct replay *replay, const struct record_entry *entry)
{
    const json_t *installed = find_install(entry, replay->book->entries);
    json_t *arguments = json_deep_copy(json_object_get(entry->event, "arguments"));
    json_t *packages = json_array();
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (installed, i, item) {
        (void)json_array_append_new(packages, json_sprintf("%s==%s", record_text(item, "name"),
                                                           record_text(item, "version")));
    }
    if (json_array_size(packages) > 0) {
        (void)json_object_set(arguments, "packages", packages);
    }
    json_decref(packages);
    json_auto_t *response = make_call(replay, replay->client, "install_package", arguments);
    if (is_refused(response)) {
        say_other(replay, entry, ": failed: ", response);
    } else if (installed && !json_equal(installed, replay->installed)) {
        say_other(replay, entry, ": other files were installed: ", response);
    }
}

static void replay_entry(struct replay *replay, const struct record_entry *entry)
{
    const char *tool = record_text(entry->event, "tool");
    bool is_error = json_is_true(json_object_get(entry->event, "is_error"));
    if (strcmp(entry->kind, "cell") == 0) {
        replay_cell(replay, entry);
    } else if (is_error) {
        return; /* it has changed nothing */
    } else if (strcmp(tool, "write_file") == 0) {
        replay_write(replay, entry);
    } else if (strcmp(tool, "install_package") == 0) {
        replay_install(replay, entry);
    } else if (strcmp(tool, "apply_changes") == 0) {
        say_other(replay, entry, ": not run (it is about the user's own files)", NULL);
    }
}

/* "11 same, 1 not run"; returns whether all are the same. */
static bool sum_up(const struct replay *replay)
{
    const struct {
        unsigned count;
        const char *name;
    } sums[] = {{replay->same, "same"},
                {replay->different, "different"},
                {replay->failed, "failed"},
                {replay->not_run, "not run"}};
    const char *before = "";
    for (unsigned i = 0; i < sizeof sums / sizeof *sums; i++) {
        if (sums[i].count > 0 || i == 0) {
            (void)printf("%s%u %s", before, sums[i].count, sums[i].name);
            before = ", ";
        }
    }
    (void)printf("\n");
    return replay->different + replay->failed + replay->not_run == 0;
}

int record_replay(const struct options *options, const struct record_book *book)
{
    static struct options bounded;
    struct replay replay = {.book = book, .options = &bounded};
    struct fail fail = {};
    bounded = *options;
    take_settings(&bounded, book);
    replay.listener = record_new_listener(on_event, &replay);
    int r = replay.listener ? own_client_new(&bounded, replay.listener, &replay.client, &fail)
                            : -ENOMEM;
    for (size_t i = 0; r == 0 && i < book->count; i++) {
        replay_entry(&replay, &book->entries[i]);
    }
    bool same = r == 0 && sum_up(&replay);
    own_client_free(replay.client);
    own_client_free(replay.viewer);
    record_free(replay.listener);
    json_decref(replay.result);
    json_decref(replay.installed);
    if (r < 0) {
        terminal_say("record replay: %s", fail.text[0] ? fail.text : strerror(-r));
    }
    return same ? 0 : 1;
}
