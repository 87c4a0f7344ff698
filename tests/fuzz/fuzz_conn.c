/* A whole connection: any bytes arrive in pieces of varying sizes, tools complete their calls at
 * once, later or when cancelled. Each line sent must be a message; fuzz_talk.c checks which. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "rpc/call.h"
#include "rpc/conn.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"

enum { HELD_MAX = 256 };

struct world {
    struct rpc_call *held[HELD_MAX];
    size_t held_count;
    unsigned closed;
};

static json_t *fuzz_list(void *)
{
    return json_array();
}

static json_t *fuzz_instructions(void *)
{
    return NULL;
}

static bool fuzz_start(void *ctx, struct rpc_call *call, const char *name, json_t *arguments)
{
    struct world *world = ctx;
    if (name[0] == 'h' && world->held_count < HELD_MAX) {
        world->held[world->held_count++] = call;
        return true;
    }
    if (name[0] == 'e') {
        rpc_call_progress(call, 1, name);
        rpc_call_result(call, json_pack("[O]", arguments), NULL, false);
        return true;
    }
    return false;
}

static void fuzz_end_one(struct world *world, size_t index)
{
    struct rpc_call *call = world->held[index];
    world->held[index] = world->held[--world->held_count];
    rpc_call_fail(call, -32603, "x");
}

/* Every other cancelled call completes at once. */
static void fuzz_cancel(void *ctx, struct rpc_call *call)
{
    struct world *world = ctx;
    for (size_t i = 0; i < world->held_count; i += 2) {
        if (world->held[i] == call) {
            fuzz_end_one(world, i);
            return;
        }
    }
}

static void fuzz_closed(void *arg)
{
    ((struct world *)arg)->closed++;
}

/* Any bytes may cause only a result, an error, or a notification. */
static void fuzz_receive(void *, const json_t *message)
{
    bool method = json_object_get(message, "method");
    bool result = json_object_get(message, "result");
    bool error = json_object_get(message, "error");
    if (method + result + error != 1 || (result && !json_object_get(message, "id"))) {
        abort();
    }
}

static void fuzz_turn(struct loop *loop, int from_server, struct buf *received)
{
    for (int i = 0; i < 3; i++) {
        if (loop_step(loop, 0) < 0) {
            abort();
        }
        lines_read(received, from_server, fuzz_receive, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_config config = {"fuzz", "Fuzz", "0"};
    struct world world = {};
    struct buf received = BUF_EMPTY;
    const struct rpc_tools tools = {.ctx = &world,
                                    .list = fuzz_list,
                                    .instructions = fuzz_instructions,
                                    .start = fuzz_start,
                                    .cancel = fuzz_cancel};
    struct loop *loop = NULL;
    struct rpc_conn *conn = NULL;
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    (void)signal(SIGPIPE, SIG_IGN);
    if (loop_new(&loop) < 0 || fd_socketpair(SOCK_STREAM, in) < 0 ||
        fd_socketpair(SOCK_STREAM, out) < 0 || fd_set_nonblock(out[0], true) < 0 ||
        rpc_conn_new(loop, in[1], out[1], &config, &tools, fuzz_closed, &world, &conn) < 0) {
        abort();
    }
    for (size_t at = 0; at < size;) {
        size_t piece = 1 + data[at] * 7U % 509U;
        size_t n = size - at < piece ? size - at : piece;
        if (fd_write_all(in[0], data + at, n) < 0) {
            abort();
        }
        at += n;
        fuzz_turn(loop, out[0], &received);
        if (world.held_count > 3) {
            fuzz_end_one(&world, piece % world.held_count);
        }
    }
    (void)close(in[0]);
    fuzz_turn(loop, out[0], &received);
    if (world.closed != 1 || buf_size(&received) > 0) {
        abort();
    }
    rpc_conn_free(conn);
    while (world.held_count > 0) {
        fuzz_end_one(&world, 0);
    }
    buf_done(&received);
    (void)close(in[1]);
    (void)close(out[0]);
    (void)close(out[1]);
    loop_free(loop);
    return 0;
}
