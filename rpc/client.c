/* The lifecycle of a connection to a server:
 *
 *   PROBING ──(it discovers)──────────────────────────► READY
 *      └─(an error, or silence)─► INITIALIZING ──(result)─► READY
 *   any ─(end of file, silence, nonsense)─► CLOSED
 *
 * Source: MCP 2026-07-28 basic/transports/stdio, "Backward Compatibility". */
#include "rpc/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/message.h"
#include "rpc/text.h"

#define LEGACY_VERSION "2025-11-25"

enum { READ_BYTES = 256 << 10, KEEP_BYTES = 1 << 20 };

enum client_state { CLIENT_PROBING, CLIENT_INITIALIZING, CLIENT_READY, CLIENT_CLOSED };

struct client_request {
    struct client_request *next;
    unsigned number;
    rpc_client_fn fn;
    void *arg;
};

struct rpc_client {
    struct loop *loop;
    struct rpc_client_config config;
    const struct rpc_client_events *events;
    void *arg;
    enum client_state state;
    bool has_spoken; /* left PROBING */
    bool is_modern;
    int fd_in;
    int fd_out;
    struct loop_io io_in;
    struct loop_io io_out;
    struct loop_timer silence;
    struct loop_task closed; /* the end comes from the loop, never inside a call of the owner's */
    char why[160];
    struct frame frame;
    struct buf out;
    json_t *meta;       /* of requests of 2026-07-28; NULL: not made yet */
    struct span result; /* of the message that is being handled */
    unsigned last_number;
    unsigned nonsense;
    struct client_request *requests;
};

static void report_closed(void *arg)
{
    struct rpc_client *client = arg;
    client->events->on_closed(client->arg, client->why);
}

static void close_client(struct rpc_client *client, const char *why)
{
    if (client->state == CLIENT_CLOSED) {
        return;
    }
    client->state = CLIENT_CLOSED;
    (void)snprintf(client->why, sizeof client->why, "%s", why);
    loop_timer_disarm(&client->silence);
    loop_io_remove(&client->io_in);
    loop_io_remove(&client->io_out);
    loop_task_queue(client->loop, &client->closed, report_closed, client);
}

/* --- writing --- */

static void flush(struct rpc_client *client)
{
    while (buf_size(&client->out) > 0) {
        ssize_t n = write(client->fd_out, buf_bytes(&client->out), buf_size(&client->out));
        if (n >= 0) {
            buf_consume(&client->out, (size_t)n);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return; /* on_out() is called */
        }
    }
    bool waits = buf_size(&client->out) > 0;
    if (!waits) {
        buf_clear(&client->out, KEEP_BYTES);
    }
    if (client->io_out.loop) {
        (void)loop_io_set(&client->io_out, waits ? EPOLLOUT : 0);
    }
}

/* written: of a message_write function. */
static int end_line(struct rpc_client *client, int written)
{
    int r = written ? written : buf_append(&client->out, "\n", 1);
    if (r == 0) {
        flush(client);
    }
    if (buf_size(&client->out) > LIMIT_TOOL_UNREAD_BYTES) {
        close_client(client, "does not read its stdin");
    }
    return r;
}

static void notify(struct rpc_client *client, const char *method, const json_t *params)
{
    (void)end_line(client, message_write_request(&client->out, NULL, method, params));
}

/* Each request of 2026-07-28 names its version. */
static int add_meta(struct rpc_client *client, json_t *params)
{
    if (!client->meta) {
        client->meta =
            json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", MCP_META_VERSION, MCP_STATELESS_VERSION,
                      MCP_META_CAPABILITIES, "elicitation", MCP_META_PREFIX "clientInfo", "name",
                      client->config.name, "version", client->config.version);
    }
    json_t *own = json_object_get(params, "_meta");
    return own ? json_object_update(own, client->meta)
               : json_object_set(params, "_meta", client->meta);
}

static unsigned send_request(struct rpc_client *client, const char *method, json_t *params,
                             rpc_client_fn fn, void *arg)
{
    json_auto_t *owned = params;
    struct client_request *request = calloc(1, sizeof *request);
    json_auto_t *id = json_integer((json_int_t)client->last_number + 1);
    if (!request || !id || !owned ||
        end_line(client, message_write_request(&client->out, id, method, owned)) < 0) {
        free(request);
        return 0;
    }
    *request = (struct client_request){client->requests, ++client->last_number, fn, arg};
    client->requests = request;
    return request->number;
}

unsigned rpc_client_request(struct rpc_client *client, const char *method, json_t *params,
                            rpc_client_fn fn, void *arg)
{
    if (!params || (client->is_modern && add_meta(client, params) < 0)) {
        json_decref(params);
        return 0;
    }
    return send_request(client, method, params, fn, arg);
}

/* The request with this number, off the list; NULL: there is none. */
static struct client_request *take_request(struct rpc_client *client, json_int_t number)
{
    for (struct client_request **at = &client->requests; *at; at = &(*at)->next) {
        if ((*at)->number == number) {
            struct client_request *request = *at;
            *at = request->next;
            return request;
        }
    }
    return NULL;
}

void rpc_client_cancel(struct rpc_client *client, unsigned request)
{
    struct client_request *found = take_request(client, request);
    if (found) {
        json_auto_t *params = json_pack("{s:I}", "requestId", (json_int_t)request);
        free(found);
        notify(client, "notifications/cancelled", params);
    }
}

/* --- the handshake --- */

static void become_ready(struct rpc_client *client)
{
    loop_timer_disarm(&client->silence);
    client->state = CLIENT_READY;
    client->has_spoken = true;
    client->events->on_ready(client->arg);
}

static void initialized(void *arg, const json_t *result, const json_t *error, const char *text)
{
    struct rpc_client *client = arg;
    if (client->state != CLIENT_INITIALIZING) {
        return;
    }
    if (!json_is_string(json_object_get(result, "protocolVersion"))) {
        const char *message = rpc_text_plain(json_object_get(error, "message"));
        char shown[80];
        char why[160];
        message = message ? message : text ? text : "its response is not as the protocol has it";
        (void)snprintf(why, sizeof why, "refuses the handshake: %s",
                       word_line(message, shown, sizeof shown));
        close_client(client, why);
        return;
    }
    notify(client, "notifications/initialized", NULL);
    become_ready(client);
}

static void on_silence(void *arg);

static void listen_for(struct rpc_client *client)
{
    loop_timer_in(client->loop, &client->silence, client->config.silence_ms, on_silence, client);
}

static void initialize(struct rpc_client *client)
{
    client->state = CLIENT_INITIALIZING;
    client->has_spoken = true;
    json_t *params = json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}}", "protocolVersion", LEGACY_VERSION,
                               "capabilities", "elicitation", "clientInfo", "name",
                               client->config.name, "version", client->config.version);
    if (!send_request(client, "initialize", params, initialized, client)) {
        close_client(client, "was not asked: out of memory");
    }
    listen_for(client);
}

static void on_silence(void *arg)
{
    struct rpc_client *client = arg;
    char why[160];
    if (client->state == CLIENT_PROBING) {
        initialize(client);
    } else {
        (void)snprintf(
            why, sizeof why,
            "did not respond within %u s; the next call starts it again, and the user can "
            "give it longer (start_s)",
            client->config.silence_ms / 1000);
        close_client(client, why);
    }
}

static void discovered(void *arg, const json_t *result, const json_t *, const char *)
{
    struct rpc_client *client = arg;
    const json_t *versions = json_object_get(result, "supportedVersions");
    if (client->state != CLIENT_PROBING) {
        return; /* it was slow, and has been asked to initialize */
    }
    for (size_t i = 0; i < json_array_size(versions); i++) {
        const char *version = json_string_value(json_array_get(versions, i));
        client->is_modern =
            client->is_modern || (version && strcmp(version, MCP_STATELESS_VERSION) == 0);
    }
    if (client->is_modern) {
        become_ready(client);
    } else {
        initialize(client);
    }
}

bool rpc_client_is_probing(const struct rpc_client *client)
{
    return !client->has_spoken;
}

bool rpc_client_is_modern(const struct rpc_client *client)
{
    return client->is_modern;
}

/* --- reading --- */

static void take_response(struct rpc_client *client, const json_t *id, const json_t *result,
                          const json_t *error, const char *text)
{
    struct client_request *request =
        json_is_integer(id) ? take_request(client, json_integer_value(id)) : NULL;
    if (request) { /* else it was cancelled */
        rpc_client_fn fn = request->fn;
        void *arg = request->arg;
        free(request);
        fn(arg, result, error, text);
    }
}

static void respond(struct rpc_client *client, const json_t *id, json_t *result)
{
    (void)end_line(client, message_write_result(&client->out, id, result));
    json_decref(result);
}

json_t *rpc_client_elicit_result(const json_t *content)
{
    return json_pack("{s:s, s:O*}", "action", content ? "accept" : "decline", "content", content);
}

void rpc_client_elicited(struct rpc_client *client, const json_t *id, const json_t *content)
{
    respond(client, id, rpc_client_elicit_result(content));
}

/* Servers of 2026-07-28 ask by results, which say for which call: basic/patterns/mrtr. */
static void take_server_request(struct rpc_client *client, const struct message *message)
{
    if (strcmp(message->method, "elicitation/create") == 0 && !client->is_modern) {
        client->events->on_elicit(client->arg, message->id, message->params);
    } else if (strcmp(message->method, "ping") == 0) {
        respond(client, message->id, json_object());
    } else {
        (void)end_line(client, message_write_error(&client->out, message->id, RPC_METHOD_NOT_FOUND,
                                                   "Method not found", NULL));
    }
}

static void take_nonsense(struct rpc_client *client, const char *problem)
{
    log_info("tools", "a tool server wrote a line that is no message: %s", problem);
    if (++client->nonsense > LIMIT_TOOL_NONSENSE) {
        close_client(client, "writes what is no MCP message to stdout");
    }
}

size_t rpc_client_unread(const struct rpc_client *client)
{
    return buf_size(&client->out);
}

struct span rpc_client_result(const struct rpc_client *client)
{
    return client->result.bytes ? scan_container(client->result) : client->result;
}

static void take_message(struct rpc_client *client, json_t *value, struct span line)
{
    struct message message;
    message_classify(value, &message);
    if (message.kind == MESSAGE_RESPONSE) {
        const json_t *result = json_object_get(value, "result");
        bool has_text = scan_member(line, "result", &client->result);
        take_response(client, message.id, json_is_object(result) && has_text ? result : NULL,
                      json_object_get(value, "error"), "sent a response without a result");
    } else if (message.kind == MESSAGE_REQUEST) {
        take_server_request(client, &message);
    } else if (message.kind == MESSAGE_NOTIFICATION &&
               strcmp(message.method, "notifications/tools/list_changed") == 0 &&
               client->state == CLIENT_READY) {
        client->events->on_tools_changed(client->arg);
    } else if (message.kind == MESSAGE_INVALID) {
        take_nonsense(client, message.problem);
    }
}

static void take_line(struct rpc_client *client, struct span line)
{
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    json_t *unused = NULL;
    bool marked = false;
    json_auto_t *value = message_parse(line, &code, &problem, &unused, &marked);
    json_decref(unused);
    if (value) {
        (void)(marked ? rpc_text_unmark(value, NULL) : 0);
        take_message(client, value, line);
        return;
    }
    json_auto_t *id = message_id_of(line);
    if (id) {
        const char *colon = strstr(problem, ": ");
        char text[120];
        (void)snprintf(text, sizeof text, "sent a response that is not usable: %s",
                       colon ? colon + 2 : problem);
        take_response(client, id, NULL, NULL, text);
    } else {
        take_nonsense(client, problem);
    }
}

static void take_too_long(struct rpc_client *client, struct span outline)
{
    json_auto_t *id = message_id_of(outline);
    if (id) {
        take_response(client, id, NULL, NULL, "sent a response longer than 64 MiB");
    } else {
        take_nonsense(client, "longer than 64 MiB");
    }
}

static void on_in(void *arg, uint32_t)
{
    struct rpc_client *client = arg;
    char *space = NULL;
    struct span line = {};
    ssize_t n = frame_reserve(&client->frame, READ_BYTES, &space) < 0
                    ? 0
                    : read(client->fd_in, space, READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    frame_commit(&client->frame, n > 0 ? (size_t)n : 0);
    enum frame_result found = FRAME_NONE;
    while (client->state != CLIENT_CLOSED &&
           (found = frame_next(&client->frame, LIMIT_TOOL_LINE_BYTES, n <= 0, &line)) !=
               FRAME_NONE) {
        if (found == FRAME_LINE) {
            take_line(client, line);
        } else {
            take_too_long(client, line);
        }
    }
    if (n <= 0) {
        close_client(client, "has closed its stdout");
    }
}

static void on_out(void *arg, uint32_t events)
{
    struct rpc_client *client = arg;
    if (!(events & (EPOLLERR | EPOLLHUP))) {
        flush(client);
        client->events->on_written(client->arg);
        return;
    }
    loop_io_remove(&client->io_out);
    on_in(client, 0); /* what it has written before */
    close_client(client, "has closed its stdin");
}

static int attach(struct rpc_client *client)
{
    int r = fd_set_nonblock(client->fd_in, true);
    r = r ? r : fd_set_nonblock(client->fd_out, true);
    r = r ? r : loop_io_add(client->loop, &client->io_in, client->fd_in, EPOLLIN, on_in, client);
    return r ? r : loop_io_add(client->loop, &client->io_out, client->fd_out, 0, on_out, client);
}

static void discover(struct rpc_client *client)
{
    json_t *params = json_object();
    if (!params || add_meta(client, params) < 0 ||
        !send_request(client, "server/discover", json_incref(params), discovered, client)) {
        close_client(client, "was not asked: out of memory");
    } else {
        listen_for(client);
    }
    json_decref(params);
}

/* NOLINTNEXTLINE(readability-function-size): each of the seven has another owner */
int rpc_client_new(struct loop *loop, int fd_in, int fd_out, const struct rpc_client_config *config,
                   const struct rpc_client_events *events, void *arg,
                   struct rpc_client **ret_client)
{
    struct rpc_client *client = calloc(1, sizeof *client);
    if (!client) {
        own_close(&fd_in);
        own_close(&fd_out);
        return -ENOMEM;
    }
    *client = (struct rpc_client){.loop = loop,
                                  .config = *config,
                                  .events = events,
                                  .arg = arg,
                                  .fd_in = fd_in,
                                  .fd_out = fd_out};
    int r = attach(client);
    if (r < 0) {
        rpc_client_free(client);
        return r;
    }
    *ret_client = client;
    (config->legacy ? initialize : discover)(client);
    return 0;
}

void rpc_client_free(struct rpc_client *client)
{
    if (!client) {
        return;
    }
    loop_timer_disarm(&client->silence);
    loop_task_cancel(&client->closed);
    loop_io_remove(&client->io_in);
    loop_io_remove(&client->io_out);
    own_close(&client->fd_in);
    own_close(&client->fd_out);
    while (client->requests) {
        struct client_request *next = client->requests->next;
        free(client->requests);
        client->requests = next;
    }
    frame_done(&client->frame);
    buf_done(&client->out);
    json_decref(client->meta);
    free(client);
}
