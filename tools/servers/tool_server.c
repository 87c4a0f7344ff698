/* The life of a tool server:
 *
 *   DOWN ──wanted──► STARTING ──handshake──► LISTING ──tools/list──► UP
 *    ▲                   └──────────────────────┴───(exit, silence)───┘
 *    └───────────────────────────────────┘ */
#include "tools/servers/tool_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/client.h"
#include "rpc/text.h"
#include "sandbox/sandbox.h"
#include "schema/schema.h"
#include "tools/servers/grants.h"

/* What a tool server writes to stderr, into the log: escaped, and without the values of its env. */

enum { TOOL_LOG_LINE_BYTES = 4096 };

struct tool_log {
    const struct tool_entry *entry;
    int fd; /* owned; -1: none */
    struct loop_io io;
    char line[TOOL_LOG_LINE_BYTES]; /* not ended */
    size_t size;
    bool skips;     /* the rest of a line that was too long */
    char last[200]; /* the last line that is not blank, quoted */
};

enum { SHOWN_BYTES = 400 };

/* Replaces a line of a secret. is_cut: the rest of the text is missing, and may have been the rest
 * of one. */
static void hide(const char *secret, size_t length, char *text, size_t size, bool is_cut)
{
    enum { SHORT = 4 /* such a value hides nothing, and is in every text */ };
    for (size_t at = 0; length >= SHORT && at < size; at++) {
        size_t have = size - at < length ? size - at : length;
        if ((have == length || is_cut) && memcmp(text + at, secret, have) == 0) {
            memset(text + at, '*', have);
        }
    }
}

/* The values of env are secrets; a key may have several lines. */
static void hide_secrets(const struct tool_log *log, char *text, size_t size, bool is_cut)
{
    json_t *env = (json_t *)(uintptr_t)log->entry->env; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (env, key, value) {
        const char *line = json_string_value(value);
        size_t length = 0;
        for (; *line; line += length + (line[length] == '\n')) {
            length = strcspn(line, "\n");
            hide(line, length, text, size, is_cut);
        }
    }
}

static void log_stderr(struct tool_log *log, bool is_cut)
{
    char name[80];
    char shown[SHOWN_BYTES];
    char text[TOOL_LOG_LINE_BYTES + 1];
    memcpy(text, log->line, log->size);
    hide_secrets(log, text, log->size, is_cut);
    for (size_t i = 0; i < log->size; i++) {
        if (!text[i]) {
            text[i] = '?';
        }
    }
    text[log->size] = '\0';
    if (text[strspn(text, " \t\r")]) {
        (void)word_quote(text, log->size, log->last, sizeof log->last);
    }
    log_info("tools", "%s: %s",
             word_show(log->entry->name, strlen(log->entry->name), name, sizeof name),
             word_line(text, shown, sizeof shown));
}

/* Cuts a line that is too long: its rest could begin with half of a secret. */
static void on_stderr(void *arg, uint32_t)
{
    struct tool_log *log = arg;
    ssize_t n = read(log->fd, log->line + log->size, sizeof log->line - log->size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        loop_io_remove(&log->io);
        return;
    }
    size_t size = log->size + (size_t)n;
    const char *end = NULL;
    while ((end = memchr(log->line, '\n', size)) || size == sizeof log->line) {
        log->size = end ? (size_t)(end - log->line) : size;
        if (!log->skips) {
            log_stderr(log, end == NULL);
        }
        log->skips = end == NULL;
        size_t used = log->size + (end != NULL);
        memmove(log->line, log->line + used, size - used);
        size -= used;
    }
    log->size = size;
}

/* 0 or -errno */
static int tool_log_begin(struct tool_log *log, struct loop *loop)
{
    return loop_io_add(loop, &log->io, log->fd, EPOLLIN, on_stderr, log);
}

static void tool_log_end(struct tool_log *log)
{
    loop_io_remove(&log->io);
    drop_fd(&log->fd);
    log->size = 0;
}

struct loop;
struct tool_entry;

/* The program of a tool server, as its entry in the file has it. All is borrowed. */
struct tool_start {
    struct loop *loop;
    const struct box_spec *spec;
    const struct tool_entry *entry;
    void (*on_exit)(void *arg, const char *why); /* as box_program_start() has it */
    void *arg;
};

enum { ENVIRONMENT = 128, ARGUMENTS = 254 };

struct environment {
    const char *all[ENVIRONMENT + 1];
    char *made[ENVIRONMENT];
    size_t count;
};

static void add_variable(struct environment *environment, const char *name, const char *value)
{
    char *made = NULL;
    if (value && environment->count < ENVIRONMENT && asprintf(&made, "%s=%s", name, value) >= 0) {
        environment->made[environment->count] = made;
        environment->all[environment->count++] = made;
    }
}

/* What SDKs of clients pass on, and env. */
static void fill_environment(const struct tool_start *start, struct environment *environment)
{
    static const char *const names[] = {"HOME", "LOGNAME", "SHELL", "TERM", "USER"};
    json_t *env = (json_t *)(uintptr_t)start->entry->env; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    char path[PATH_MAX];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_object_get(env, names[i])) {
            add_variable(environment, names[i], getenv(names[i]));
        }
    }
    box_program_search_path(start->spec, path, sizeof path);
    if (!json_object_get(env, "PATH")) {
        add_variable(environment, "PATH", path);
    }
    json_object_foreach (env, key, value) {
        add_variable(environment, key, json_string_value(value));
    }
}

/* Refuses a program that code could change. ret_fds: its stdin, stdout and stderr, as
 * box_program_start() has them. */
static int tool_start(const struct tool_start *start, struct box_program **ret_program,
                      int ret_fds[3], struct fail *ret_fail)
{
    const struct tool_entry *entry = start->entry;
    const char *directory = tool_entry_directory(entry);
    const char *argv[ARGUMENTS + 2] = {entry->command};
    char path[PATH_MAX];
    struct environment environment = {};
    size_t count = json_array_size(entry->args);
    if (count > ARGUMENTS) {
        return fail_set(ret_fail, 0, "has more than 254 args"), -E2BIG;
    }
    for (size_t i = 0; i < count; i++) {
        argv[i + 1] = json_string_value(json_array_get(entry->args, i));
    }
    int r = box_program_find(start->spec, entry->command, directory, path, ret_fail);
    r = r ? r : box_program_check(start->spec, directory, argv, ret_fail);
    if (r < 0) {
        return r;
    }
    fill_environment(start, &environment);
    const struct box_program_request request = {path,      argv,           environment.all,
                                                directory, start->on_exit, start->arg};
    r = box_program_start(start->loop, &request, ret_program, ret_fds, ret_fail);
    for (size_t i = 0; i < environment.count; i++) {
        free(environment.made[i]);
    }
    return r;
}

enum {
    WHY_BYTES = 480,
    EXIT_MS = 200 /* from the end of its stdout to its exit, which says more */
};

enum server_state { SERVER_DOWN, SERVER_STARTING, SERVER_LISTING, SERVER_UP };

struct tool_server {
    struct tool_servers *owner;
    struct tool_entry *entry;
    enum server_state state;
    struct box_program *program;
    struct rpc_client *client;
    struct tool_log log;
    bool is_closed;                        /* its stdout has ended */
    bool is_legacy;                        /* it exits when it is asked to discover */
    uint64_t starts_ns[LIMIT_TOOL_STARTS]; /* the last ones */
    unsigned started;
    struct loop_timer listing;
    struct loop_task down; /* the program has exited */
    json_t *tools;         /* NULL: not known */
    json_t *found;         /* pages so far */
    unsigned pages;
    struct tool_waiter *waiters;
    struct tool_calls calls;
    char exit[WHY_BYTES]; /* how the program has exited; empty: it runs */
};

struct tool_servers {
    struct loop *loop;
    const struct box_spec *spec;
    struct tools_file *file;
    const char *version;
    const struct cell_asker *asker; /* NULL: nobody can be asked */
    struct tool_server *list;       /* as many as the file has entries */
};

void tool_servers_set_asker(struct tool_servers *servers, const struct cell_asker *asker)
{
    servers->asker = asker;
}

const struct cell_asker *tool_servers_asker(const struct tool_servers *servers)
{
    return servers->asker;
}

struct tools_file *tool_servers_file(const struct tool_servers *servers)
{
    return servers->file;
}

struct tool_server *tool_servers_find(struct tool_servers *servers, const char *name)
{
    struct tool_entry *entry = tools_file_find(servers->file, name);
    return entry ? &servers->list[entry - servers->file->entries] : NULL;
}

struct tool_entry *tool_server_entry(const struct tool_server *server)
{
    return server->entry;
}

json_t *tool_server_tools(const struct tool_server *server)
{
    return server->tools;
}

bool tool_only_reads(const json_t *tool)
{
    return json_is_true(json_object_get(json_object_get(tool, "annotations"), "readOnlyHint"));
}

/* --- waiters --- */

static void notify_waiters(struct tool_server *server, const char *why)
{
    while (server->waiters) { /* a callback may end others */
        struct tool_waiter *waiter = server->waiters;
        server->waiters = waiter->next;
        waiter->server = NULL;
        waiter->fn(waiter->arg, why);
    }
}

/* --- down --- */

static void release(struct tool_server *server)
{
    loop_timer_disarm(&server->listing);
    loop_task_cancel(&server->down);
    tool_log_end(&server->log);
    tool_calls_stop(&server->calls);
    rpc_client_free(take_ptr(server->client));
    box_program_end(take_ptr(server->program));
    json_decref(take_ptr(server->found));
    json_decref(take_ptr(server->tools));
}

static void start(struct tool_server *server);

/* why: as tool_server_want() has it. */
static void go_down(struct tool_server *server, const char *why)
{
    bool was_up = server->state == SERVER_UP;
    char said[WHY_BYTES];
    server->state = SERVER_DOWN;
    release(server);
    log_warn("tools", "the tool server %s %s", server->entry->name, why);
    if (!was_up && server->log.last[0]) { /* later, code may have made it write what it says */
        (void)snprintf(said, sizeof said, "%.250s; its stderr ends with %s", why, server->log.last);
        why = said;
    }
    tool_calls_end(&server->calls, why);
    if (!was_up) {
        notify_waiters(server, why);
    }
}

static void on_down(void *arg)
{
    struct tool_server *server = arg;
    char why[WHY_BYTES];
    memcpy(why, server->exit, sizeof why);
    if (server->log.fd >= 0) {
        on_stderr(&server->log, 0); /* what it has written at its end */
    }
    if (server->state == SERVER_STARTING && !server->is_legacy &&
        rpc_client_is_probing(server->client)) {
        server->is_legacy = true; /* the elicitation has ended it */
        server->state = SERVER_DOWN;
        release(server);
        start(server);
        return;
    }
    go_down(server, why);
}

static void on_exit_of(void *arg, const char *why)
{
    struct tool_server *server = arg;
    (void)snprintf(server->exit, sizeof server->exit, "%s", why);
    if (server->is_closed) { /* else what it has written before is read first */
        loop_task_queue(server->owner->loop, &server->down, on_down, server);
    }
}

static void on_closed(void *arg, const char *why)
{
    struct tool_server *server = arg;
    server->is_closed = true;
    if (server->exit[0]) {
        loop_task_queue(server->owner->loop, &server->down, on_down, server);
        return;
    }
    (void)snprintf(server->exit, sizeof server->exit, "%s", why);
    loop_timer_in(server->owner->loop, &server->listing, EXIT_MS, on_down, server);
}

/* --- its tools --- */

static void ask_for_page(struct tool_server *server, json_t *params);

static void on_slow_list(void *arg)
{
    struct tool_server *server = arg;
    (void)snprintf(
        server->exit, sizeof server->exit,
        "did not list its tools within %u s; the next call starts it again, and the user "
        "can give it longer (start_s)",
        server->entry->start_s);
    on_down(server);
}

static void take_tools(struct tool_server *server, const json_t *tools)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i);
        const char *name = rpc_text_plain(json_object_get(tool, "name"));
        if (name && name[0] && strlen(name) < TOOL_NAME_BYTES &&
            json_is_object(json_object_get(tool, "inputSchema")) &&
            !json_object_get(server->found, name) &&
            json_object_size(server->found) < LIMIT_TOOL_TOOLS) {
            (void)json_object_set_new(tool, TOOL_CHECKED,
                                      schema_foreign(json_object_get(tool, "inputSchema")));
            (void)json_object_set(server->found, name, tool);
        }
    }
}

static void on_page(void *arg, const json_t *result, const json_t *error, const char *)
{
    struct tool_server *server = arg;
    const char *cursor = rpc_text_plain(json_object_get(result, "nextCursor"));
    if (!json_is_array(json_object_get(result, "tools"))) {
        const char *message = json_string_value(json_object_get(error, "message"));
        char shown[200];
        message = message ? message : "its response has no tools";
        (void)snprintf(server->exit, sizeof server->exit, "does not list its tools: %s",
                       word_quote(message, strlen(message), shown, sizeof shown));
        loop_task_queue(server->owner->loop, &server->down, on_down, server);
        return;
    }
    take_tools(server, json_object_get(result, "tools"));
    if (cursor && ++server->pages < LIMIT_TOOL_PAGES) {
        ask_for_page(server, json_pack("{s:s}", "cursor", cursor));
        return;
    }
    loop_timer_disarm(&server->listing);
    json_decref(server->tools);
    server->tools = take_ptr(server->found);
    server->state = SERVER_UP;
    server->calls.leave = true;
    tool_calls_send(&server->calls);
    notify_waiters(server, NULL);
}

static void ask_for_page(struct tool_server *server, json_t *params)
{
    if (!rpc_client_request(server->client, "tools/list", params, on_page, server)) {
        (void)snprintf(server->exit, sizeof server->exit, "was not asked: out of memory");
        loop_task_queue(server->owner->loop, &server->down, on_down, server);
    }
}

/* While it lists them anew, calls wait. */
static void list_tools(void *arg)
{
    struct tool_server *server = arg;
    if (server->found) {
        return; /* it is being asked */
    }
    server->state = SERVER_LISTING;
    server->calls.leave = false;
    server->found = json_object();
    server->pages = 0;
    loop_timer_in(server->owner->loop, &server->listing, server->entry->start_s * 1000UL,
                  on_slow_list, server);
    ask_for_page(server, json_object());
}

/* --- up --- */

static void on_written(void *arg)
{
    struct tool_server *server = arg;
    tool_calls_send(&server->calls);
}

static void on_elicit(void *arg, const json_t *id, const json_t *params)
{
    struct tool_server *server = arg;
    tool_calls_elicit(&server->calls, id, params);
}

static const struct rpc_client_events client_events = {.on_ready = list_tools,
                                                       .on_tools_changed = list_tools,
                                                       .on_elicit = on_elicit,
                                                       .on_written = on_written,
                                                       .on_closed = on_closed};

static int start_program(struct tool_server *server, struct fail *fail)
{
    struct tool_servers *owner = server->owner;
    int fds[3];
    int r = tool_start(&(struct tool_start){.loop = owner->loop,
                                            .spec = owner->spec,
                                            .entry = server->entry,
                                            .on_exit = on_exit_of,
                                            .arg = server},
                       &server->program, fds, fail);
    if (r < 0) {
        return r;
    }
    const struct rpc_client_config config = {.name = "sandpiper",
                                             .version = owner->version,
                                             .silence_ms = server->entry->start_s * 1000,
                                             .legacy = server->is_legacy};
    server->log.fd = fds[2];
    server->log.last[0] = '\0';
    r = rpc_client_new(owner->loop, fds[1], fds[0], &config, &client_events, server,
                       &server->client);
    server->calls.client = server->client;
    server->calls.elicitations =
        (struct tool_elicitations){.asker = owner->asker, .name = server->entry->name};
    r = r ? r : tool_log_begin(&server->log, owner->loop);
    return r < 0 ? fail_set(fail, -r, "cannot start") : 0;
}

/* Whether it has been started so often that it will not help. */
static bool starts_too_often(const struct tool_server *server)
{
    uint64_t oldest_ns = server->starts_ns[server->started % LIMIT_TOOL_STARTS];
    return server->started >= LIMIT_TOOL_STARTS &&
           clock_now_ns() - oldest_ns < LIMIT_TOOL_STARTS_MS * CLOCK_NS_PER_MS;
}

static void start(struct tool_server *server)
{
    struct fail fail = {};
    char why[WHY_BYTES];
    if (starts_too_often(server)) {
        (void)snprintf(why, sizeof why,
                       "was started %u times within a minute and is not started "
                       "again yet; last it %.200s",
                       LIMIT_TOOL_STARTS, server->exit);
        notify_waiters(server, why);
        return;
    }
    server->starts_ns[server->started++ % LIMIT_TOOL_STARTS] = clock_now_ns();
    server->exit[0] = '\0';
    server->is_closed = false;
    server->state = SERVER_STARTING;
    if (start_program(server, &fail) < 0) {
        server->state = SERVER_DOWN;
        release(server);
        (void)snprintf(server->exit, sizeof server->exit, "does not start");
        (void)snprintf(why, sizeof why, "does not start: %.440s", fail_text(&fail));
        notify_waiters(server, why);
    }
}

void tool_server_want(struct tool_server *server, struct tool_waiter *waiter,
                      void (*fn)(void *arg, const char *why), void *arg)
{
    if (server->state == SERVER_UP) {
        fn(arg, NULL);
        return;
    }
    *waiter = (struct tool_waiter){.next = server->waiters, .server = server, .fn = fn, .arg = arg};
    server->waiters = waiter;
    if (server->state == SERVER_DOWN) {
        start(server);
    }
}

void tool_server_forget(struct tool_waiter *waiter)
{
    if (waiter->server) {
        (void)list_remove(&waiter->server->waiters, waiter);
        waiter->server = NULL;
    }
}

void tool_server_add(struct tool_server *server, struct tool_call *call)
{
    tool_calls_add(&server->calls, call);
}

/* --- all --- */

int tool_servers_new(struct loop *loop, const struct box_spec *spec, struct tools_file *file,
                     const char *version, struct tool_servers **ret_servers)
{
    struct tool_servers *servers = calloc(1, sizeof *servers);
    struct tool_server *list = calloc(file->count + 1, sizeof *list);
    if (!servers || !list) {
        free(servers);
        free(list);
        return -ENOMEM;
    }
    *servers = (struct tool_servers){
        .loop = loop, .spec = spec, .file = file, .version = version, .list = list};
    for (size_t i = 0; i < file->count; i++) {
        list[i].owner = servers;
        list[i].entry = &file->entries[i];
        list[i].calls.loop = loop;
        list[i].log = (struct tool_log){.fd = -1, .entry = list[i].entry};
    }
    if (file->readable) {
        log_warn("tools", "%s can be read by other users, and may hold tokens: run chmod go-r",
                 file->path);
    }
    *ret_servers = servers;
    return 0;
}

void tool_servers_free(struct tool_servers *servers)
{
    if (!servers) {
        return;
    }
    for (size_t i = 0; i < servers->file->count; i++) {
        rpc_client_free(take_ptr(servers->list[i].client)); /* the end of its stdin */
        box_program_stop(servers->list[i].program);
    }
    for (size_t i = 0; i < servers->file->count; i++) {
        release(&servers->list[i]);
    }
    free(servers->list);
    free(servers);
}
