#include "rpc/peer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/call_table.h"

struct rpc_batch {
    struct buf answers; /* separated by commas */
    size_t pending;     /* requests without an end, and one until the batch is closed */
};

struct rpc_batch *rpc_batch_new(void)
{
    struct rpc_batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        batch->pending = 1;
    }
    return batch;
}

void rpc_batch_join(struct rpc_batch *batch, struct rpc_request *request)
{
    request->batch = batch;
    batch->pending++;
}

void rpc_batch_close(struct rpc_peer *peer, struct rpc_batch *batch)
{
    assert(batch->pending > 0);
    if (--batch->pending > 0) {
        return;
    }
    size_t size = buf_size(&batch->answers);
    if (size > 0) { /* only notifications: nothing is sent, JSON-RPC 2.0 section 6 */
        char *space = NULL;
        if (buf_reserve(&peer->out, size + 3, &space) < 0) {
            log_error("rpc", "no memory for the answers to a batch");
        } else {
            (void)buf_append(&peer->out, "[", 1);
            (void)buf_append(&peer->out, buf_bytes(&batch->answers), size);
            (void)buf_append(&peer->out, "]\n", 2);
            peer->written(peer->arg);
        }
    }
    buf_done(&batch->answers);
    free(batch);
}

void rpc_peer_done(struct rpc_peer *peer)
{
    call_cancel_all(peer);
    call_forget_all(peer);
    buf_done(&peer->out);
}

/* Frees what the request owns; the batch goes on when this was its last. */
static void request_end(struct rpc_peer *peer, struct rpc_request *request)
{
    struct rpc_batch *batch = take_ptr(request->batch);
    rpc_id_done(&request->id);
    rpc_id_done(&request->context.progress_token);
    json_decref(take_ptr(request->context.answers));
    if (batch) {
        rpc_batch_close(peer, batch);
    }
}

/* Appends the answer to out: the result, or the error when result is NULL. */
static int answer_write(struct buf *out, const struct rpc_id *id, const json_t *result,
                        const char *separator)
{
    size_t before = buf_size(out);
    if (before > 0 && separator[0] == ',' && buf_append(out, ",", 1) < 0) {
        return -ENOMEM;
    }
    int r = message_write_result(out, id, result);
    if (r == 0 && buf_size(out) - before > LIMIT_LINE_OUT_BYTES) {
        r = -EMSGSIZE;
    }
    if (r == 0 && separator[0] == '\n') {
        r = buf_append(out, "\n", 1);
    }
    if (r < 0) {
        out->end = out->start + before;
    }
    return r;
}

void peer_refuse(struct rpc_peer *peer, struct rpc_request *request, int code, const char *text,
                 const json_t *data)
{
    struct buf *out = request->batch ? &request->batch->answers : &peer->out;
    size_t before = buf_size(out);
    bool comma = request->batch && before > 0;
    log_debug("rpc", "refused code=%d %s", code, text);
    if ((comma && buf_append(out, ",", 1) < 0) ||
        message_write_error(out, &request->id, code, text, data) < 0 ||
        (!request->batch && buf_append(out, "\n", 1) < 0)) {
        out->end = out->start + before;
        log_error("rpc", "no memory to answer a request");
    } else if (!request->batch) {
        peer->written(peer->arg);
    }
    request_end(peer, request);
}

/* Ends the request if its result could be written; else it is as before. */
static int answer_try(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                      enum mcp_keep keep)
{
    struct buf *out = request->batch ? &request->batch->answers : &peer->out;
    int r = -ENOMEM;
    if (result && request->context.era->complete(peer, result, keep) == 0) {
        r = answer_write(out, &request->id, result, request->batch ? "," : "\n");
    }
    if (r < 0) {
        log_error("rpc", "an answer could not be made: %s",
                  r == -EMSGSIZE ? "it is too large" : "out of memory");
        return r;
    }
    if (!request->batch) {
        peer->written(peer->arg);
    }
    request_end(peer, request);
    return 0;
}

void peer_answer(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                 enum mcp_keep keep)
{
    json_auto_t *owned = result;
    int r = answer_try(peer, request, owned, keep);
    if (r < 0) {
        peer_refuse(peer, request, RPC_INTERNAL_ERROR,
                    r == -EMSGSIZE ? "The answer is too large" : "Out of memory", NULL);
    }
}

static json_t *too_long(void)
{
    return json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                     "The call has been carried out, but its result is longer than 10 MiB and was "
                     "not sent.",
                     "isError", true);
}

void peer_answer_work(struct rpc_peer *peer, struct rpc_request *request, json_t *result)
{
    json_auto_t *owned = result;
    int r = answer_try(peer, request, owned, MCP_KEEP_UNSAID);
    if (r < 0) {
        peer_answer(peer, request, r == -EMSGSIZE ? too_long() : NULL, MCP_KEEP_UNSAID);
    }
}

void peer_drop(struct rpc_peer *peer, struct rpc_request *request)
{
    request_end(peer, request);
}
