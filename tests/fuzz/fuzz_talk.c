/* A well-formed conversation, whose responses are therefore known. The input is a list of steps,
 * two bytes each, that make requests of both eras, batches, cancellations, broken lines,
 * completions of calls, and times in which the client does not read. They reach the connection in
 * pieces of varying sizes. Each request must get exactly one response, in the form of its era, or
 * none if it was cancelled. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/loop.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

enum {
    REQUEST_MAX = 1024,
    HELD_MAX = LIMIT_CALLS_IN_FLIGHT,
    GROWN_BYTES = 100'000, /* a few of these fill the socket of a client that does not read */
};

/* The requests with one id, which is their index. */
struct asked {
    unsigned due;     /* required responses */
    unsigned dropped; /* cancelled: so many fewer */
    unsigned answers;
    bool modern;
    bool listens;
};

struct talk {
    struct loop *loop;
    struct rpc_conn *conn;
    int to_server;
    int from_server;
    struct asked asked[REQUEST_MAX];
    unsigned count;
    struct rpc_call *held[HELD_MAX];
    size_t held_count;
    struct buf line;     /* the client's next write */
    struct buf received; /* an incomplete line */
    unsigned version;    /* index of versions[], as the server must see it */
    bool in_batch;
    unsigned batch_size;
    unsigned batch_first; /* id */
    unsigned pieces;      /* state of the sequence of piece sizes */
    unsigned deaf;        /* remaining pieces that are written without reading */
    bool closed;
};

static const char *const versions[] = {"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

enum { VERSION_NONE = 0, VERSION_WITH_BATCHES = 2, VERSION_COUNT = 5 };

static void must(bool held)
{
    if (!held) {
        abort();
    }
}

/* --- the tools --- */

static json_t *talk_list(void *)
{
    return json_array();
}

static json_t *talk_instructions(void *)
{
    return NULL;
}

static bool talk_start(void *ctx, struct rpc_call *call, const char *name, json_t *arguments)
{
    struct talk *talk = ctx;
    rpc_call_set_data(call, &talk->asked[json_integer_value(json_object_get(arguments, "n"))]);
    if (strcmp(name, "hold") == 0 && talk->held_count < HELD_MAX) {
        talk->held[talk->held_count++] = call;
        return true;
    }
    if (strcmp(name, "echo") == 0) {
        size_t size = json_object_get(arguments, "grow") ? GROWN_BYTES : 1;
        char *text = calloc(1, size);
        must(text);
        memset(text, 'x', size);
        rpc_call_progress(call, 1, name);
        rpc_call_result(call, json_pack("[s#]", text, (int)size), NULL, false);
        free(text);
        return true;
    }
    return false;
}

static void talk_end_one(struct talk *talk, size_t index)
{
    struct rpc_call *call = talk->held[index];
    talk->held[index] = talk->held[--talk->held_count];
    if (index % 2) {
        rpc_call_result(call, json_array(), NULL, true);
    } else {
        rpc_call_fail(call, -32603, "x");
    }
}

/* Every other cancelled call completes at once. */
static void talk_cancel(void *ctx, struct rpc_call *call)
{
    struct talk *talk = ctx;
    struct asked *asked = rpc_call_data(call);
    asked->dropped++;
    for (size_t i = 0; i < talk->held_count; i += 2) {
        if (talk->held[i] == call) {
            talk_end_one(talk, i);
            return;
        }
    }
}

static void talk_closed(void *arg)
{
    struct talk *talk = arg;
    must(!talk->closed);
    talk->closed = true;
}

/* --- the server's messages --- */

static void talk_receive_message(void *arg, const json_t *message)
{
    struct talk *talk = arg;
    const json_t *id = json_object_get(message, "id");
    const json_t *result = json_object_get(message, "result");
    const json_t *error = json_object_get(message, "error");
    if (json_object_get(message, "method")) {
        must(!id && !result && !error);
        return;
    }
    must(!result == !!error);
    if (!id) {
        must(error); /* for a broken line or a refused batch */
        return;
    }
    must(json_is_integer(id) && json_integer_value(id) < talk->count);
    struct asked *asked = &talk->asked[json_integer_value(id)];
    asked->answers++;
    must(asked->answers + asked->dropped <= asked->due);
    must(!result || !!json_object_get(result, "resultType") == asked->modern);
    size_t size = json_string_length(json_array_get(json_object_get(result, "content"), 0));
    must(size <= 1 || size == GROWN_BYTES); /* otherwise a piece was lost */
}

static void talk_receive(struct talk *talk)
{
    lines_read(&talk->received, talk->from_server, talk_receive_message, talk);
}

static void talk_turn(struct talk *talk)
{
    for (int i = 0; i < 3; i++) {
        must(loop_step(talk->loop, 0) == 0);
        if (talk->deaf == 0) {
            talk_receive(talk);
        }
    }
    talk->deaf -= talk->deaf > 0;
}

/* --- the client's messages --- */

static void talk_write(struct talk *talk)
{
    while (buf_size(&talk->line) > 0) {
        talk->pieces = talk->pieces * 1103515245U + 12345U;
        size_t piece = 1 + talk->pieces / 65536U % 601U;
        size_t n = buf_size(&talk->line) < piece ? buf_size(&talk->line) : piece;
        must(fd_write_all(talk->to_server, buf_bytes(&talk->line), n) == 0);
        buf_consume(&talk->line, n);
        talk_turn(talk);
    }
}

/* Ends the message on talk->line, depending on whether it is part of a batch. */
static void talk_message_done(struct talk *talk)
{
    if (talk->in_batch) {
        talk->batch_size++;
        must(buf_append_text(&talk->line, ",") == 0);
        return;
    }
    must(buf_append_text(&talk->line, "\n") == 0);
    talk_write(talk);
}

static unsigned talk_new_id(struct talk *talk, bool modern)
{
    talk->asked[talk->count] = (struct asked){.due = 1, .modern = modern};
    return talk->count++;
}

static void talk_request(struct talk *talk, const char *method, const char *params, bool modern)
{
    unsigned id = talk_new_id(talk, modern);
    talk->asked[id].listens =
        modern && !talk->in_batch && strcmp(method, "subscriptions/listen") == 0;
    must(buf_appendf(&talk->line,
                     "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":{%s%s%s}}", id,
                     method, params, params[0] && modern ? "," : "", modern ? META : "") == 0);
    talk_message_done(talk);
}

static void talk_call(struct talk *talk, unsigned detail, bool modern)
{
    static const char *const names[] = {"hold", "hold", "echo", "nothing"};
    char params[128];
    (void)snprintf(params, sizeof params, "\"name\":\"%s\",\"arguments\":{\"n\":%u%s}%s",
                   names[detail % 4], talk->count, detail & 8 ? ",\"grow\":1" : "",
                   detail & 4 && !modern ? ",\"_meta\":{\"progressToken\":0}" : "");
    talk_request(talk, "tools/call", params, modern);
}

static void talk_initialize(struct talk *talk, unsigned detail)
{
    unsigned version = 1 + detail % (VERSION_COUNT - 1);
    char params[64];
    (void)snprintf(params, sizeof params, "\"protocolVersion\":\"%s\"", versions[version]);
    if (!talk->in_batch) { /* a batch would be refused */
        talk->version = version;
    }
    talk_request(talk, "initialize", params, /* modern= */ false);
}

static void talk_cancel_request(struct talk *talk, unsigned detail)
{
    if (talk->count == 0) {
        return;
    }
    unsigned id = talk->count - 1 - detail % (talk->count < 8 ? talk->count : 8);
    struct asked *asked = &talk->asked[id];
    bool refused = talk->in_batch && talk->version != VERSION_WITH_BATCHES;
    if (asked->listens && !refused) { /* no tool receives these */
        asked->dropped += asked->answers + asked->dropped < asked->due;
    }
    must(buf_appendf(&talk->line,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                     "{\"requestId\":%u}}",
                     id) == 0);
    talk_message_done(talk);
}

static void talk_batch(struct talk *talk)
{
    if (!talk->in_batch) {
        talk->in_batch = true;
        talk->batch_size = 0;
        talk->batch_first = talk->count;
        must(buf_append_text(&talk->line, "[") == 0);
        return;
    }
    talk->in_batch = false;
    if (talk->batch_size > 0) {
        talk->line.end--; /* the comma */
    }
    bool served = talk->version == VERSION_WITH_BATCHES && talk->batch_size <= LIMIT_BATCH_MESSAGES;
    for (unsigned id = talk->batch_first; !served && id < talk->count; id++) {
        talk->asked[id].due = 0;
    }
    must(buf_append_text(&talk->line, "]\n") == 0);
    talk_write(talk);
}

static void talk_broken(struct talk *talk, unsigned detail)
{
    static const char *const lines[] = {
        "{\"jsonrpc\":\"2.0\",\"id\"\n",
        "\n \r\n",
        "{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":0}\n",
        "\xFF\n",
        "7\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard_of\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\",\"a\":1,\"a\":2}\n",
    };
    if (!talk->in_batch) {
        must(buf_append_text(&talk->line, lines[detail % (sizeof lines / sizeof *lines)]) == 0);
        talk_write(talk);
    }
}

/* The same id again while the first may still be in flight: one more response of either kind. */
static void talk_same_id(struct talk *talk)
{
    if (talk->count == 0 || talk->in_batch || talk->asked[talk->count - 1].due == 0 ||
        talk->asked[talk->count - 1].modern) {
        return;
    }
    talk->asked[talk->count - 1].due++;
    must(buf_appendf(&talk->line, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}\n",
                     talk->count - 1) == 0);
    talk_write(talk);
}

static void talk_step(struct talk *talk, unsigned kind, unsigned detail)
{
    static const char *const plain[] = {"ping", "tools/list", "resources/list", "server/discover"};
    bool modern = detail & 0x80;
    switch (kind % 10) {
    case 0:
        talk_request(talk, plain[detail % 4], "", modern);
        break;
    case 1:
    case 2:
        talk_call(talk, detail, modern);
        break;
    case 3:
        talk_request(talk, "subscriptions/listen", "\"notifications\":{}", modern);
        break;
    case 4:
        talk_cancel_request(talk, detail);
        break;
    case 5:
        if (talk->held_count > 0) {
            talk_end_one(talk, detail % talk->held_count);
        }
        break;
    case 6:
        talk_initialize(talk, detail);
        break;
    case 7:
        talk_batch(talk);
        break;
    case 8:
        talk_broken(talk, detail);
        talk->deaf = detail & 0x40 ? detail & 0x3F : talk->deaf;
        break;
    default:
        talk_same_id(talk);
        break;
    }
}

/* Closes stdin, perhaps with calls in flight, and reads the remaining responses. */
static void talk_finish(struct talk *talk)
{
    if (talk->in_batch) {
        talk_batch(talk);
    }
    talk->deaf = 0;
    (void)close(talk->to_server);
    talk_turn(talk);
    must(talk->closed);
    while (rpc_conn_flush(talk->conn, 0) != 0) {
        talk_receive(talk);
    }
    talk_receive(talk);
    must(buf_size(&talk->received) == 0);
    rpc_conn_free(talk->conn);
    while (talk->held_count > 0) {
        talk_end_one(talk, 0);
    }
    for (unsigned id = 0; id < talk->count; id++) {
        must(talk->asked[id].answers + talk->asked[id].dropped == talk->asked[id].due);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_config config = {"fuzz", "Fuzz", "0"};
    static struct talk talk;
    talk = (struct talk){.pieces = size > 0 ? data[0] : 0};
    const struct rpc_tools tools = {.ctx = &talk,
                                    .list = talk_list,
                                    .instructions = talk_instructions,
                                    .start = talk_start,
                                    .cancel = talk_cancel};
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    (void)signal(SIGPIPE, SIG_IGN);
    must(loop_new(&talk.loop) == 0 && fd_socketpair(SOCK_STREAM, in) == 0 &&
         fd_socketpair(SOCK_STREAM, out) == 0 && fd_set_nonblock(out[0], true) == 0 &&
         rpc_conn_new(talk.loop, in[1], out[1], &config, &tools, talk_closed, &talk, &talk.conn) ==
             0);
    talk.to_server = in[0];
    talk.from_server = out[0];
    for (size_t i = 0; i + 1 < size && talk.count < REQUEST_MAX; i += 2) {
        talk_step(&talk, data[i], data[i + 1]);
    }
    talk_finish(&talk);
    buf_done(&talk.line);
    buf_done(&talk.received);
    (void)close(in[1]);
    (void)close(out[0]);
    (void)close(out[1]);
    loop_free(talk.loop);
    return 0;
}
