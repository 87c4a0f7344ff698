/* sandpiper call: one tool call in a sandbox of its own. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/word.h"
#include "bridge/format.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/own_client.h"
#include "cli/terminal.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/tools.h"

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
