/* sandpiper call: one tool call in a sandbox of its own. This process sends the request over a
 * socket whose other end it serves itself, so a call means here exactly what it means to a
 * client. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
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
#include "cli/input.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "guest/guest.h"
#include "rpc/code.h"
#include "rpc/conn.h"
#include "rpc/text.h"
#include "tools/tools.h"

enum { EXIT_TOOL_ERROR = 1, EXIT_USAGE = 2, PIECE_BYTES = 65536 };

struct asked {
    struct loop *loop;
    struct loop_io io;
    int fd;
    struct buf request;
    struct buf response;
};

/* Sends the rest of the request, then waits for the response, which is one line. */
static void on_socket(void *arg, uint32_t events)
{
    struct asked *asked = arg;
    if (events & EPOLLOUT) {
        ssize_t sent = write(asked->fd, buf_bytes(&asked->request), buf_size(&asked->request));
        buf_consume(&asked->request, sent > 0 ? (size_t)sent : 0);
        if (buf_size(&asked->request) == 0) {
            (void)loop_io_set(&asked->io, EPOLLIN);
        }
    }
    if (events & (EPOLLIN | EPOLLHUP)) {
        char *space = NULL;
        if (buf_reserve(&asked->response, PIECE_BYTES, &space) < 0) {
            loop_stop(asked->loop, -ENOMEM);
            return;
        }
        ssize_t size = read(asked->fd, space, PIECE_BYTES);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            loop_stop(asked->loop, -EPIPE);
        } else if (size > 0) {
            buf_commit(&asked->response, (size_t)size);
            if (space[size - 1] == '\n') {
                loop_stop(asked->loop, 0);
            }
        }
    }
}

static void on_closed(void *arg)
{
    struct asked *asked = arg;
    loop_stop(asked->loop, -EPIPE);
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

/* Carries out the request with tools of its own. 0 or -errno. */
static int ask(struct asked *asked, const struct options *options)
{
    static const struct rpc_config config = {.server_name = "sandpiper",
                                             .server_title = "Sandpiper",
                                             .server_version = SANDPIPER_VERSION};
    struct options with_guest = *options;
    struct tools *tools = NULL;
    struct rpc_conn *conn = NULL;
    struct box_scratch *scratch = NULL;
    struct box_store *store = NULL;
    struct fail fail = {};
    int ends[2] = {-1, -1};
    with_guest.spec.guest = guest_catalog;
    struct tools_config tools_config = {.spec = &with_guest.spec,
                                        .timeout_ms = options->timeout_ms,
                                        .max_timeout_ms = options->max_timeout_ms,
                                        .install = &options->install,
                                        .tools_file = options->tools,
                                        .version = SANDPIPER_VERSION,
                                        .structured = options->structured};
    int r = fd_socketpair(SOCK_STREAM, ends);
    defer_close int server_in = ends[0];
    defer_close int server_out = r == 0 ? fcntl(ends[0], F_DUPFD_CLOEXEC, 3) : -1;
    defer_close int ours = ends[1];
    asked->fd = ours;
    r = r ? r : server_out < 0 ? -errno : fd_set_nonblock(ours, true);
    r = r ? r : box_scratch_open(&with_guest.spec, &scratch, &fail);
    r = r ? r : box_store_open(&with_guest.spec, &store, &fail);
    r = r ? r : loop_new(&asked->loop);
    r = r ? r : tools_new(asked->loop, &tools_config, &tools);
    if (r == 0) {
        struct rpc_tools for_rpc = tools_for_rpc(tools);
        r = rpc_conn_new(asked->loop, server_in, server_out, &config, &for_rpc, on_closed, asked,
                         &conn);
    }
    r = r ? r : loop_io_add(asked->loop, &asked->io, ours, EPOLLIN | EPOLLOUT, on_socket, asked);
    r = r ? r : loop_run(asked->loop);
    loop_io_remove(&asked->io);
    tools_free(tools);
    rpc_conn_free(conn);
    loop_free(asked->loop);
    box_store_close(store);
    box_scratch_close(scratch);
    if (fail.text[0]) {
        terminal_say("%s", fail.text);
    }
    return r;
}

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
    json_t *arguments =
        rpc_text_load(buf_size(&text) ? buf_bytes(&text) : "", buf_size(&text), &error);
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
    struct asked asked = {.fd = -1};
    json_auto_t *arguments = read_arguments(options);
    if (!arguments) {
        return EXIT_USAGE;
    }
    int r = write_request(options->call.tool, arguments, &asked.request);
    r = r ? r : ask(&asked, options);
    json_auto_t *response =
        r == 0 ? json_loadb(buf_bytes(&asked.response), buf_size(&asked.response), 0, NULL) : NULL;
    buf_done(&asked.request);
    buf_done(&asked.response);
    if (!response) {
        terminal_say("call: %s", strerror(r < 0 ? -r : EPROTO));
        return EXIT_TOOL_ERROR;
    }
    return print_response(options, response);
}
