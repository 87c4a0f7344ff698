#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "bridge/format.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "rpc/text.h"
#include "tools/tools.h"

enum { PIECE_BYTES = 65536 };

struct own_client {
    struct options options;
    struct loop *loop;
    struct tools *tools;
    struct rpc_conn *conn;
    struct box_scratch *scratch;
    struct box_store *store;
    struct loop_io io;
    int fds[3]; /* ours, and the server's: to read from, and to write to */
    struct buf request;
    struct buf response;
};

/* Sends the rest of the request, then waits for the response, which is one line. */
static void on_socket(void *arg, uint32_t events)
{
    struct own_client *client = arg;
    if (events & EPOLLOUT) {
        ssize_t sent =
            write(client->fds[0], buf_bytes(&client->request), buf_size(&client->request));
        buf_consume(&client->request, sent > 0 ? (size_t)sent : 0);
        if (buf_size(&client->request) == 0) {
            (void)loop_io_set(&client->io, EPOLLIN);
        }
    }
    if (events & (EPOLLIN | EPOLLHUP)) {
        char *space = NULL;
        if (buf_reserve(&client->response, PIECE_BYTES, &space) < 0) {
            loop_stop(client->loop, -ENOMEM);
            return;
        }
        ssize_t size = read(client->fds[0], space, PIECE_BYTES);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            loop_stop(client->loop, -EPIPE);
        } else if (size > 0) {
            buf_commit(&client->response, (size_t)size);
            if (space[size - 1] == '\n') {
                loop_stop(client->loop, 0);
            }
        }
    }
}

static void on_closed(void *arg)
{
    struct own_client *client = arg;
    loop_stop(client->loop, -EPIPE);
}

/* Serves one end of a socket; the other one is the client's. */
static int connect_tools(struct own_client *client)
{
    static const struct rpc_config config = {.server_name = "sandpiper",
                                             .server_title = "Sandpiper",
                                             .server_version = SANDPIPER_VERSION};
    struct rpc_tools for_rpc = tools_for_rpc(client->tools);
    int ends[2] = {-1, -1};
    int r = fd_socketpair(SOCK_STREAM, ends);
    client->fds[0] = ends[1];
    client->fds[1] = ends[0];
    client->fds[2] = r == 0 ? fcntl(ends[0], F_DUPFD_CLOEXEC, 3) : -1;
    r = r ? r : client->fds[2] < 0 ? -errno : fd_set_nonblock(ends[1], true);
    r = r ? r
          : rpc_conn_new(client->loop, client->fds[1], client->fds[2], &config, &for_rpc, on_closed,
                         client, &client->conn);
    return r ? r : loop_io_add(client->loop, &client->io, ends[1], EPOLLIN, on_socket, client);
}

int own_client_new(const struct options *options, struct record *record,
                   struct own_client **ret_client, struct fail *ret_fail)
{
    struct own_client *client = calloc(1, sizeof *client);
    if (!client) {
        return -ENOMEM;
    }
    memset(client->fds, -1, sizeof client->fds);
    client->options = *options;
    client->options.spec.guest = guest_catalog;
    struct tools_config config = options_tools_config(&client->options);
    config.record = record;
    config.hosts = NULL; /* nobody can be asked, */
    config.wait_ms = 0;  /* and each call gets its whole result */
    config.ui = TOOLS_UI_OFF;
    config.resources = false;
    int r = box_scratch_open(&client->options.spec, &client->scratch, ret_fail);
    r = r ? r : box_store_open(&client->options.spec, &client->store, ret_fail);
    r = r ? r : loop_new(&client->loop);
    r = r ? r : tools_new(client->loop, &config, &client->tools);
    r = r ? r : connect_tools(client);
    if (r < 0) {
        own_client_free(client);
        return r;
    }
    *ret_client = client;
    return 0;
}

void own_client_free(struct own_client *client)
{
    if (client) {
        loop_io_remove(&client->io);
        tools_free(client->tools);
        rpc_conn_free(client->conn);
        loop_free(client->loop);
        box_store_close(client->store);
        box_scratch_close(client->scratch);
        for (unsigned i = 0; i < 3; i++) {
            own_close(&client->fds[i]);
        }
        buf_done(&client->request);
        buf_done(&client->response);
        free(client);
    }
}

/* Writes a request of 2026-07-28, whose messages need no handshake. 0 or -errno. */
static int write_request(const char *tool, json_t *arguments, struct buf *out)
{
    json_auto_t *request =
        json_pack("{s:s, s:i, s:s, s:{s:s, s:O, s:{s:s, s:{}}}}", "jsonrpc", "2.0", "id", 1,
                  "method", "tools/call", "params", "name", tool, "arguments", arguments, "_meta",
                  "io.modelcontextprotocol/protocolVersion", "2026-07-28",
                  "io.modelcontextprotocol/clientCapabilities");
    defer_free char *line = request ? json_dumps(request, JSON_COMPACT) : NULL;
    int r = line ? buf_append_text(out, line) : -ENOMEM;
    return r ? r : buf_append(out, "\n", 1);
}

int own_client_call(struct own_client *client, const char *tool, json_t *arguments,
                    json_t **ret_response)
{
    buf_clear(&client->request, PIECE_BYTES);
    buf_clear(&client->response, PIECE_BYTES);
    int r = write_request(tool, arguments, &client->request);
    r = r ? r : loop_io_set(&client->io, EPOLLIN | EPOLLOUT);
    r = r ? r : loop_run(client->loop);
    if (r < 0) {
        return r;
    }
    *ret_response = json_loadb(buf_bytes(&client->response), buf_size(&client->response), 0, NULL);
    return *ret_response ? 0 : -EPROTO;
}

/* sandpiper call: one tool call in a sandbox of its own. */

enum { EXIT_TOOL_ERROR = 1, EXIT_USAGE = 2 };

/* Prints the content of the response, one JSON value a line. Returns the exit code. */
static int print_response(const struct options *options, const json_t *response)
{
    const json_t *error = json_object_get(response, "error");
    const json_t *result = json_object_get(response, "result");
    if (error) {
        char shown[512];
        (void)fprintf(
            stderr, "sandpiper: call: %s\n",
            word_line(json_string_value(json_object_get(error, "message")), shown, sizeof shown));
        return json_integer_value(json_object_get(error, "code")) == RPC_INVALID_PARAMS
                   ? EXIT_USAGE
                   : EXIT_TOOL_ERROR;
    }
    json_auto_t *values =
        bridge_result(options->format, options->call.tool, options->call.id, result);
    if (!values) {
        terminal_say("call: out of memory");
        return EXIT_TOOL_ERROR;
    }
    size_t i = 0;
    const json_t *value = NULL;
    json_array_foreach (values, i, value) {
        OWNED(buf_done) struct buf line = BUF_EMPTY; /* its reader may be a terminal */
        if (rpc_text_show(&line, value) < 0 || buf_append(&line, "\n", 1) < 0 ||
            fwrite(buf_bytes(&line), 1, buf_size(&line), stdout) != buf_size(&line)) {
            return EXIT_TOOL_ERROR;
        }
    }
    if (fflush(stdout) != 0) {
        return EXIT_TOOL_ERROR;
    }
    return json_is_true(json_object_get(result, "isError")) ? EXIT_TOOL_ERROR : 0;
}

/* New: the tool's arguments, from the command line or, for "-", from stdin. If they are not a JSON
 * object, prints that and returns NULL. */
static json_t *read_arguments(const struct options *options)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_error_t error = {};
    const char *given = options->call.arguments ? options->call.arguments : "{}";
    int r =
        strcmp(given, "-") == 0 ? input_read(STDIN_FILENO, &text) : buf_append_text(&text, given);
    if (r < 0) {
        terminal_say("call: arguments: %s", strerror(-r));
        return NULL;
    }
    json_t *arguments = rpc_text_load(buf_bytes(&text), buf_size(&text), &error);
    if (!json_is_object(arguments)) {
        terminal_say("call: the arguments must be a JSON object: %s",
                     arguments ? "they are another JSON value" : error.text);
        json_decref(arguments);
        return NULL;
    }
    return arguments;
}

int command_call(const struct options *options)
{
    struct own_client *client = NULL;
    struct fail fail = {};
    json_auto_t *response = NULL;
    json_auto_t *arguments = read_arguments(options);
    if (!arguments) {
        return EXIT_USAGE;
    }
    int r = own_client_new(options, /* record= */ NULL, &client, &fail);
    r = r ? r : own_client_call(client, options->call.tool, arguments, &response);
    own_client_free(client);
    if (fail.text[0]) {
        terminal_say("%s", fail.text);
    }
    if (r < 0) {
        terminal_say("call: %s", strerror(-r));
        return EXIT_TOOL_ERROR;
    }
    return print_response(options, response);
}

/* The list that a client gets, limits filled in, in the form of --format. */
int command_schema(const struct options *options)
{
    struct loop *loop = NULL;
    struct tools *tools = NULL;
    struct options own = *options;
    struct tools_config config = options_tools_config(&own);
    config.ui = TOOLS_UI_OFF; /* no page is shown */
    int code = 1;
    if (loop_new(&loop) == 0 && tools_new(loop, &config, &tools) == 0) {
        struct rpc_tools for_rpc = tools_for_rpc(tools);
        json_auto_t *list = for_rpc.list(for_rpc.ctx);
        json_auto_t *declared =
            list ? bridge_declare(options->format, options->strict, list) : NULL;
        if (declared &&
            json_dumpf(declared, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) == 0) {
            (void)putchar('\n');
            code = 0;
        }
    }
    tools_free(tools);
    loop_free(loop);
    return code;
}
