#include "rpc/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/loop.h"
#include "rpc/call.h"
#include "tests/unit/unit.h"

enum { HELD_MAX = 300 };

/* A client at the other end of two socket pairs, and tools that end their calls when the test
 * requests it. */
struct world {
    struct loop *loop;
    struct rpc_conn *conn;
    int to_server;
    int from_server;
    int server_fds[2];
    struct buf seen;
    struct rpc_call *held[HELD_MAX]; /* calls of the tool "hold" */
    unsigned held_count;
    unsigned cancelled;
    unsigned greeted;
    unsigned closed;
};

static json_t *fake_list(void *)
{
    return json_pack("[{s:s}]", "name", "echo");
}

static json_t *fake_instructions(void *)
{
    return json_string("hello");
}

static bool fake_start(void *ctx, struct rpc_call *call, const char *name, json_t *arguments)
{
    struct world *world = ctx;
    if (strcmp(name, "echo") == 0) {
        rpc_call_result(call, json_pack("[O]", arguments), json_integer(5),
                        json_object_size(arguments) == 0);
    } else if (strcmp(name, "hold") == 0) {
        world->held[world->held_count++] = call;
        rpc_call_set_data(call, world);
    } else {
        return false;
    }
    return true;
}

static void fake_cancel(void *ctx, struct rpc_call *call)
{
    struct world *world = ctx;
    assert_ptr_equal(rpc_call_data(call), world);
    assert_true(rpc_call_cancelled(call));
    world->cancelled++;
}

static void fake_greeted(void *ctx)
{
    ((struct world *)ctx)->greeted++;
}

static void fake_closed(void *arg)
{
    ((struct world *)arg)->closed++;
}

static void world_open(struct world *world, int fd_in, int fd_out)
{
    static const struct rpc_config config = {"fake", NULL, "1"};
    const struct rpc_tools tools = {.ctx = world,
                                    .list = fake_list,
                                    .instructions = fake_instructions,
                                    .start = fake_start,
                                    .cancel = fake_cancel,
                                    .greeted = fake_greeted};
    world->server_fds[0] = fd_in;
    world->server_fds[1] = fd_out;
    assert_int_equal(loop_new(&world->loop), 0);
    assert_int_equal(
        rpc_conn_new(world->loop, fd_in, fd_out, &config, &tools, fake_closed, world, &world->conn),
        0);
}

static void world_init(struct world *world)
{
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    (void)signal(SIGPIPE, SIG_IGN);
    *world = (struct world){.to_server = -1, .from_server = -1};
    assert_int_equal(fd_socketpair(SOCK_STREAM, in), 0);
    assert_int_equal(fd_socketpair(SOCK_STREAM, out), 0);
    world->to_server = in[0];
    world->from_server = out[0];
    assert_int_equal(fd_set_nonblock(out[0], true), 0);
    world_open(world, in[1], out[1]);
}

static void world_done(struct world *world)
{
    rpc_conn_free(world->conn);
    for (unsigned i = 0; i < world->held_count; i++) {
        if (world->held[i]) {
            rpc_call_fail(world->held[i], -32603, "late");
        }
    }
    loop_free(world->loop);
    buf_done(&world->seen);
    const int fds[] = {world->to_server, world->from_server, world->server_fds[0],
                       world->server_fds[1]};
    for (unsigned i = 0; i < 4; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

static void turn(struct world *world)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(loop_step(world->loop, 0), 0);
    }
}

/* Reads what the server has written and compares all of it. */
static void expect(struct world *world, const char *expected)
{
    char *space = NULL;
    turn(world);
    buf_clear(&world->seen, SIZE_MAX);
    assert_int_equal(buf_reserve(&world->seen, 1 << 20, &space), 0);
    ssize_t n = read(world->from_server, space, (1 << 20) - 1);
    space[n > 0 ? n : 0] = '\0';
    assert_string_equal(space, expected);
}

static void send_text(struct world *world, const char *text)
{
    assert_int_equal(fd_write_all(world->to_server, text, strlen(text)), 0);
}

/* Sends one line; the response must be expected, which has no envelope. */
static void ask(struct world *world, const char *line, const char *expected)
{
    send_text(world, line);
    send_text(world, "\n");
    expect(world, expected);
}

#define R "{\"jsonrpc\":\"2.0\","
#define ERROR(code, text) "\"error\":{\"code\":" #code ",\"message\":\"" text "\"}}\n"

static void greet(struct world *world, const char *version)
{
    char line[200];
    char answer[400];
    (void)snprintf(
        line, sizeof line,
        R "\"id\":\"i\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}",
        version);
    bool known = strcmp(version, "1999") != 0;
    (void)snprintf(answer, sizeof answer,
                   R
                   "\"id\":\"i\",\"result\":{\"capabilities\":{\"tools\":{}},\"instructions\":"
                   "\"hello\",\"protocolVersion\":\"%s\",\"serverInfo\":{\"name\":\"fake\","
                   "\"version\":\"1\"}}}\n",
                   known ? version : "2025-11-25");
    ask(world, line, answer);
}

static void before_initialize_only_ping_is_served(void **)
{
    struct world world;
    world_init(&world);
    ask(&world, R "\"id\":1,\"method\":\"ping\"}", R "\"id\":1,\"result\":{}}\n");
    ask(&world, R "\"id\":2,\"method\":\"tools/list\"}",
        R "\"id\":2," ERROR(-32602,
                            "Request lacks _meta (2026-07-28) and no initialize was received "
                            "(2025-11-25 and earlier)"));
    assert_int_equal(world.greeted, 0);
    greet(&world, "1999");
    greet(&world, "2024-11-05");
    assert_int_equal(world.greeted, 1);
    ask(&world, R "\"method\":\"notifications/initialized\"}", "");
    ask(&world, R "\"id\":3,\"method\":\"tools/list\"}",
        R "\"id\":3,\"result\":{\"tools\":[{\"name\":\"echo\"}]}}\n");
    world_done(&world);
}

static void malformed_lines_get_their_error_and_the_next_works(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, "garbage", R ERROR(-32700, "Parse error: the line is not valid JSON"));
    ask(&world, R "\"id\":null,\"method\":\"ping\"}",
        R ERROR(-32600, "Invalid request: id must be a string or an integer"));
    ask(&world, R "\"id\":8}",
        R "\"id\":8," ERROR(-32600, "Invalid request: method must be a string"));
    ask(&world, "[]",
        R ERROR(-32600, "Invalid request: batches are not part of this protocol version"));
    ask(&world, "7", R ERROR(-32600, "Invalid request: not an object"));
    ask(&world, R "\"id\":21,\"result\":{}}", "");
    ask(&world, R "\"method\":\"no/such\"}", "");
    ask(&world, R "\"id\":1,\"method\":\"no/such\"}",
        R "\"id\":1," ERROR(-32601, "Method not found"));
    ask(&world, R "\"id\":1,\"method\":\"ping\",\"params\":[1]}",
        R "\"id\":1," ERROR(-32602, "Invalid params: must be an object"));
    ask(&world, "\xEF\xBB\xBF", R ERROR(-32700, "Parse error: the line is not valid JSON"));
    ask(&world, R "\"id\":9223372036854775807,\"method\":\"ping\"}\r",
        R "\"id\":9223372036854775807,\"result\":{}}\n");
    world_done(&world);
}

static void tool_calls_are_checked(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-06-18");
#define CALL R "\"id\":1,\"method\":\"tools/call\",\"params\":"
    ask(&world, CALL "{\"name\":\"echo\",\"arguments\":{\"a\":\"\\u2028\"}}}",
        R "\"id\":1,\"result\":{\"content\":[{\"a\":\"\\u2028\"}],\"structuredContent\":5}}\n");
    ask(&world, CALL "{\"name\":\"echo\"}}",
        R "\"id\":1,\"result\":{\"content\":[{}],\"structuredContent\":5,\"isError\":true}}\n");
    ask(&world, CALL "{\"name\":\"nope\"}}",
        R "\"id\":1," ERROR(-32602, "Unknown tool: nope. Tools: echo"));
    ask(&world, CALL "{\"name\":\"echo\\u0000\"}}",
        R "\"id\":1," ERROR(-32602, "Unknown tool: echo. Tools: echo"));
    ask(&world, CALL "{\"arguments\":{}}}",
        R "\"id\":1," ERROR(-32602, "Invalid params: name must be a string"));
    ask(&world, CALL "{\"name\":\"echo\",\"arguments\":[1]}}",
        R "\"id\":1," ERROR(-32602, "Invalid params: arguments must be an object"));
    ask(&world, R "\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}",
        R "\"id\":1," ERROR(-32602, "Unknown cursor"));
    greet(&world, "2025-03-26");
    ask(&world, CALL "{\"name\":\"echo\",\"arguments\":{\"a\":1}}}",
        R "\"id\":1,\"result\":{\"content\":[{\"a\":1}]}}\n");
    world_done(&world);
}

#define HOLD(id) R "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"hold\"}}"

static void ping_is_answered_while_a_call_runs(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("\"a\""), "");
    ask(&world, R "\"id\":2,\"method\":\"ping\"}", R "\"id\":2,\"result\":{}}\n");
    ask(&world, HOLD("\"\\u0061\""),
        R "\"id\":\"a\"," ERROR(-32600, "Invalid request: a request with this id is in flight"));
    rpc_call_result(world.held[0], json_array(), NULL, false);
    expect(&world, R "\"id\":\"a\",\"result\":{\"content\":[]}}\n");
    world.held_count = 0;
    ask(&world, HOLD("\"a\""), "");
    rpc_call_fail(world.held[0], -32603, "x\xFF");
    expect(&world, R "\"id\":\"a\"," ERROR(-32603, "x\xEF\xBF\xBD"));
    world.held_count = 0;
    world_done(&world);
}

static void cancelled_call_gets_no_response(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
#define CANCEL(id) R "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"
    ask(&world, HOLD("9223372036854775807"), "");
    ask(&world, CANCEL("5"), "");
    ask(&world, CANCEL("\"9223372036854775807\""), "");
    ask(&world, R "\"method\":\"notifications/cancelled\"}", "");
    assert_int_equal(world.cancelled, 0);
    ask(&world, CANCEL("9223372036854775807"), "");
    ask(&world, CANCEL("9223372036854775807"), "");
    assert_int_equal(world.cancelled, 1);
    rpc_call_result(world.held[0], json_array(), json_object(), false);
    world.held_count = 0;
    ask(&world, R "\"id\":2,\"method\":\"ping\"}", R "\"id\":2,\"result\":{}}\n");
    world_done(&world);
}

static void a_result_has_each_meta_that_was_set(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    rpc_call_set_meta(world.held[0], "a/b", json_integer(4));
    rpc_call_set_meta(world.held[0], "a/c", json_pack("[i]", 5));
    rpc_call_result(world.held[0], json_array(), NULL, false);
    expect(&world, R "\"id\":1,\"result\":{\"content\":[],\"_meta\":{\"a/b\":4,\"a/c\":[5]}}}\n");
    world.held_count = 0;
    ask(&world, HOLD("2"), "");
    rpc_call_set_meta(world.held[0], "a/b", NULL);
    rpc_call_result(world.held[0], json_array(), NULL, false);
    expect(&world, R "\"id\":2,\"result\":{\"content\":[]}}\n");
    world.held_count = 0;
    world_done(&world);
}

static void progress_is_sent_for_a_token_only(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    ask(&world,
        R
        "\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"hold\",\"_meta\":{"
        "\"progressToken\":0}}}",
        "");
    assert_false(rpc_call_wants_progress(world.held[0]));
    assert_true(rpc_call_wants_progress(world.held[1]));
    rpc_call_progress(world.held[0], 1, "no");
    rpc_call_progress(world.held[1], 1, "yes");
    rpc_call_progress(world.held[1], 2, "too soon");
    expect(&world, R
           "\"method\":\"notifications/progress\",\"params\":{\"progressToken\":0,"
           "\"progress\":1.0,\"message\":\"yes\"}}\n");
    world_done(&world);
}

static void responses_to_a_batch_come_in_one_array(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-03-26");
    ask(&world, "[]", R ERROR(-32600, "Invalid request: empty batch"));
    ask(&world, "[" R "\"method\":\"x\"}]", "");
    ask(&world,
        "[" R "\"id\":10,\"method\":\"ping\"}, 5 ," R
        "\"id\":1234567890123456789,"
        "\"method\":\"ping\"}]",
        "[" R "\"id\":10,\"result\":{}}," R
        "\"error\":{\"code\":-32600,\"message\":\"Invalid "
        "request: not an object\"}}," R "\"id\":1234567890123456789,\"result\":{}}]\n");
    ask(&world, "[" R "\"id\":1,\"method\":\"initialize\"}]",
        "[" R
        "\"id\":1,\"error\":{\"code\":-32600,\"message\":\"Invalid request: initialize must "
        "not be part of a batch\"}}]\n");
    ask(&world, "[" HOLD("1") "," R "\"id\":2,\"method\":\"ping\"}," HOLD("3") "]", "");
    rpc_call_result(world.held[0], json_array(), NULL, false);
    expect(&world, "");
    ask(&world, CANCEL("3"),
        "[" R "\"id\":2,\"result\":{}}," R "\"id\":1,\"result\":{\"content\":[]}}]\n");
    world.held[0] = NULL;
    world_done(&world);
}

#define META(version, more)                                                                        \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" version                              \
    ",\"io.modelcontextprotocol/clientCapabilities\":{}}" more
#define MODERN(id, method, more)                                                                   \
    R "\"id\":" id ",\"method\":\"" method "\",\"params\":{" META("\"2026-07-28\"", more) "}}"
#define SERVER "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"fake\",\"version\":\"1\"}"

static void stateless_era_needs_no_initialize(void **)
{
    struct world world;
    world_init(&world);
    ask(&world, MODERN("1", "server/discover", ""),
        R
        "\"id\":1,\"result\":{\"capabilities\":{\"tools\":{}},\"instructions\":\"hello\","
        "\"supportedVersions\":[\"2026-07-28\"],\"_meta\":{" SERVER
        "},\"ttlMs\":3600000,"
        "\"cacheScope\":\"public\",\"resultType\":\"complete\"}}\n");
    assert_int_equal(world.greeted, 1);
    ask(&world, MODERN("2", "tools/call", ",\"name\":\"echo\",\"arguments\":{\"a\":1}"),
        R "\"id\":2,\"result\":{\"content\":[{\"a\":1}],\"structuredContent\":5,\"_meta\":{" SERVER
          "},\"resultType\":\"complete\"}}\n");
    ask(&world, MODERN("3", "ping", ""), R "\"id\":3," ERROR(-32601, "Method not found"));
    ask(&world, MODERN("3", "initialize", ""), R "\"id\":3," ERROR(-32601, "Method not found"));
    ask(&world, R "\"id\":4,\"method\":\"ping\",\"params\":{" META("\"1\"", "") "}}",
        R
        "\"id\":4,\"error\":{\"code\":-32022,\"message\":\"Unsupported protocol "
        "version\",\"data\":{"
        "\"supported\":[\"2026-07-28\"],\"requested\":\"1\"}}}\n");
#define BAD_META                                                                                   \
    "Invalid _meta: io.modelcontextprotocol/protocolVersion (string) and "                         \
    "io.modelcontextprotocol/clientCapabilities (object) are required"
    ask(&world, R "\"id\":5,\"method\":\"ping\",\"params\":{" META("5", "") "}}",
        R "\"id\":5," ERROR(-32602, BAD_META));
    world_done(&world);
}

static void listen_is_held_until_the_end(void **)
{
    struct world world;
    world_init(&world);
#define ACK(id)                                                                                    \
    R "\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{},"  \
      "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":" id "}}}\n"
    ask(&world, MODERN("\"s\"", "subscriptions/listen", ""), ACK("\"s\""));
    ask(&world, MODERN("9", "subscriptions/listen", ""), ACK("9"));
    ask(&world, CANCEL("9"), "");
    (void)close(world.to_server);
    world.to_server = -1;
    expect(&world, R
           "\"id\":\"s\",\"result\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":"
           "\"s\"," SERVER "},\"resultType\":\"complete\"}}\n");
    world_done(&world);
}

static void end_of_stdin_serves_the_last_line_and_cancels(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    send_text(&world, R "\"id\":2,\"method\":\"ping\"}");
    (void)close(world.to_server);
    world.to_server = -1;
    expect(&world, R "\"id\":2,\"result\":{}}\n");
    assert_int_equal(world.cancelled, 1);
    assert_int_equal(world.closed, 1);
    assert_int_equal(rpc_conn_flush(world.conn, 0), 0);
    turn(&world);
    assert_int_equal(world.closed, 1);
    world_done(&world);
}

static void broken_stdout_closes_without_a_write(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    (void)close(world.from_server);
    world.from_server = -1;
    turn(&world);
    assert_int_equal(world.cancelled, 1);
    assert_int_equal(world.closed, 1);
    assert_int_equal(rpc_conn_flush(world.conn, 10), -EPIPE);
    world_done(&world);
}

static void result_that_is_too_long_becomes_an_error(void **)
{
    struct world world;
    size_t size = LIMIT_LINE_OUT_BYTES;
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    rpc_call_result(world.held[0], json_pack("[s]", text), NULL, false);
    expect(&world, R
           "\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"The call was carried "
           "out, but its result exceeds 10 MiB and was not sent.\"}],\"isError\":true}}\n");
    world.held_count = 0;
    ask(&world, HOLD("2"), "");
    rpc_call_result(world.held[0], json_array(), NULL, false);
    expect(&world, R "\"id\":2,\"result\":{\"content\":[]}}\n");
    world.held_count = 0;
    world_done(&world);
    free(text);
}

static void broken_stdout_is_noticed_by_a_write(void **)
{
    struct world world;
    world_init(&world);
    greet(&world, "2025-11-25");
    ask(&world, HOLD("1"), "");
    ask(&world, HOLD("2"), "");
    (void)close(world.from_server);
    world.from_server = -1;
    rpc_call_result(world.held[0], json_array(), NULL, false);
    assert_int_equal(world.cancelled, 0); /* never from inside the tool's own call */
    assert_int_equal(world.closed, 0);
    turn(&world);
    assert_int_equal(world.cancelled, 1);
    assert_int_equal(world.closed, 1);
    world.held[0] = NULL;
    world_done(&world);
}

/* A client that requests more than it reads stalls the server, and nothing is lost. */
static void unread_responses_stall_the_requests(void **)
{
    enum { TEXT = 1 << 20, CALLS = 100 };
    struct world world;
    size_t sent = 0;
    size_t lines = 0;
    struct buf request = BUF_EMPTY;
    char *text = malloc(TEXT);
    assert_non_null(text);
    memset(text, 'x', TEXT);
    world_init(&world);
    greet(&world, "2025-11-25");
    assert_int_equal(fd_set_nonblock(world.to_server, true), 0);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(buf_appendf(&request,
                                     R "\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                                       "\"name\":\"echo\",\"arguments\":{\"a\":\"%.*s\"}}}\n",
                                     i, TEXT, text),
                         0);
    }
    /* Until neither side moves: the content of the socket and one chunk may be read beyond the
     * limit. */
    for (int idle = 0; idle < 3;) {
        ssize_t n = write(world.to_server, buf_bytes(&request) + sent, buf_size(&request) - sent);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        assert_int_equal(loop_step(world.loop, 0), 0);
    }
    assert_in_range(sent, LIMIT_OUT_QUEUE_BYTES, LIMIT_OUT_QUEUE_BYTES + 4UL * TEXT);
    while (lines < CALLS) {
        ssize_t n = read(world.from_server, text, TEXT);
        for (ssize_t i = 0; i < n; i++) {
            lines += text[i] == '\n';
        }
        n = write(world.to_server, buf_bytes(&request) + sent, buf_size(&request) - sent);
        sent += n > 0 ? (size_t)n : 0;
        assert_int_equal(loop_step(world.loop, 0), 0);
    }
    assert_int_equal(sent, buf_size(&request));
    buf_done(&request);
    free(text);
    world_done(&world);
}

static void too_many_calls_are_refused(void **)
{
    struct world world;
    char line[200];
    char answer[200];
    world_init(&world);
    greet(&world, "2025-11-25");
    for (unsigned i = 0; i <= LIMIT_CALLS_IN_FLIGHT; i++) {
        (void)snprintf(line, sizeof line, HOLD("%u"), i);
        (void)snprintf(
            answer, sizeof answer,
            R "\"id\":%u," ERROR(-32603, "Too many calls in flight; wait until one has finished"),
            i);
        ask(&world, line, i < LIMIT_CALLS_IN_FLIGHT ? "" : answer);
    }
    assert_int_equal(world.held_count, LIMIT_CALLS_IN_FLIGHT);
    world_done(&world);
}

/* Files that epoll refuses: a session replayed from a file into a file. */
static void regular_files_serve_as_stdin_and_stdout(void **)
{
    struct world world = {.to_server = -1, .from_server = -1};
    static const char text[] =
        R "\"id\":1,\"method\":\"ping\"}\n" R "\"id\":2,\"method\":\"ping\"}";
    char got[200] = "";
    FILE *in = tmpfile();
    FILE *out = tmpfile();
    assert_true(in && out);
    assert_int_equal(write(fileno(in), text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(lseek(fileno(in), 0, SEEK_SET), 0);
    world_open(&world, fcntl(fileno(in), F_DUPFD_CLOEXEC, 3),
               fcntl(fileno(out), F_DUPFD_CLOEXEC, 3));
    turn(&world);
    assert_int_equal(world.closed, 1);
    assert_true(pread(fileno(out), got, sizeof got - 1, 0) > 0);
    assert_string_equal(got, R "\"id\":1,\"result\":{}}\n" R "\"id\":2,\"result\":{}}\n");
    world_done(&world);
    (void)fclose(in);
    (void)fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_initialize_only_ping_is_served),
        cmocka_unit_test(malformed_lines_get_their_error_and_the_next_works),
        cmocka_unit_test(tool_calls_are_checked),
        cmocka_unit_test(ping_is_answered_while_a_call_runs),
        cmocka_unit_test(cancelled_call_gets_no_response),
        cmocka_unit_test(a_result_has_each_meta_that_was_set),
        cmocka_unit_test(progress_is_sent_for_a_token_only),
        cmocka_unit_test(responses_to_a_batch_come_in_one_array),
        cmocka_unit_test(stateless_era_needs_no_initialize),
        cmocka_unit_test(listen_is_held_until_the_end),
        cmocka_unit_test(end_of_stdin_serves_the_last_line_and_cancels),
        cmocka_unit_test(broken_stdout_closes_without_a_write),
        cmocka_unit_test(result_that_is_too_long_becomes_an_error),
        cmocka_unit_test(broken_stdout_is_noticed_by_a_write),
        cmocka_unit_test(unread_responses_stall_the_requests),
        cmocka_unit_test(too_many_calls_are_refused),
        cmocka_unit_test(regular_files_serve_as_stdin_and_stdout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
