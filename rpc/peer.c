#include "rpc/peer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/call_table.h"

/* Large results may fill a batch's line up to here; all others of it fit behind. */
enum {
    BATCH_SMALL_BYTES = 1024,
    BATCH_LARGE_BYTES = LIMIT_LINE_OUT_BYTES - (size_t)LIMIT_BATCH_MESSAGES * BATCH_SMALL_BYTES - 2
};

struct rpc_batch {
    struct buf responses; /* separated by commas */
    size_t pending;       /* requests that have not ended, and one until the batch is closed */
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
    size_t size = buf_size(&batch->responses);
    if (size > 0) { /* a batch of notifications sends nothing, JSON-RPC 2.0 section 6 */
        char *space = NULL;
        if (buf_reserve(&peer->out, size + 3, &space) < 0) {
            log_error("rpc", "out of memory for the responses to a batch");
        } else {
            (void)buf_append(&peer->out, "[", 1);
            (void)buf_append(&peer->out, buf_bytes(&batch->responses), size);
            (void)buf_append(&peer->out, "]\n", 2);
            peer->written(peer->arg);
        }
    }
    buf_done(&batch->responses);
    free(batch);
}

void rpc_peer_done(struct rpc_peer *peer)
{
    call_cancel_all(peer);
    call_forget_all(peer);
    buf_done(&peer->out);
}

void peer_drop(struct rpc_peer *peer, struct rpc_request *request)
{
    struct rpc_batch *batch = take_ptr(request->batch);
    json_decref(take_ptr(request->id));
    json_decref(take_ptr(request->context.progress_token));
    json_decref(take_ptr(request->context.input_responses));
    json_decref(take_ptr(request->context.request_state));
    if (batch) {
        rpc_batch_close(peer, batch);
    }
}

int peer_notify(struct rpc_peer *peer, const char *method, json_t *params)
{
    json_auto_t *owned = params;
    size_t before = buf_size(&peer->out);
    int r = owned ? message_write_request(&peer->out, NULL, method, owned) : -ENOMEM;
    r = r ? r : buf_append_text(&peer->out, "\n");
    if (r < 0) {
        buf_cut(&peer->out, before);
        return r;
    }
    peer->written(peer->arg);
    return 0;
}

/* Adds what the request's era requires. 0 or -1. */
static int complete(const struct rpc_peer *peer, const struct rpc_request *request, json_t *result,
                    enum mcp_keep keep)
{
    const struct mcp_era *era = request->context.era;
    return era->complete ? era->complete(peer, result, keep) : 0;
}

/* Where the response is written, behind a comma if it is not the first of a batch. ret_before: the
 * size without it. */
static struct buf *response_begin(struct rpc_peer *peer, const struct rpc_request *request,
                                  size_t *ret_before)
{
    struct buf *out = request->batch ? &request->batch->responses : &peer->out;
    *ret_before = buf_size(out);
    buf_append_text(out, request->batch && *ret_before > 0 ? "," : "");
    return out;
}

/* Ends the request if its response could be written, r, and returns 0; else takes that back, and
 * leaves the request unchanged. */
static int response_end(struct rpc_peer *peer, struct rpc_request *request, size_t before, int r)
{
    struct buf *out = request->batch ? &request->batch->responses : &peer->out;
    r = r ? r : buf_append_text(out, request->batch ? "" : "\n");
    if (r < 0) {
        buf_cut(out, before);
        log_error("rpc", "cannot send a response: %s",
                  r == -EMSGSIZE ? "it is too large" : "out of memory");
        return r;
    }
    if (!request->batch) {
        peer->written(peer->arg);
    }
    peer_drop(peer, request);
    return 0;
}

bool peer_refuse(struct rpc_peer *peer, struct rpc_request *request, int code, const char *text,
                 const json_t *data)
{
    size_t before = 0;
    struct buf *out = response_begin(peer, request, &before);
    log_debug("rpc", "refused code=%d %s", code, text);
    int r = message_write_error(out, request->id, code, text, data);
    if (response_end(peer, request, before, r) < 0) {
        peer_drop(peer, request);
    }
    return false;
}

static int response_try(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                        enum mcp_keep keep)
{
    size_t before = 0;
    struct buf *out = response_begin(peer, request, &before);
    int r = -ENOMEM;
    if (result && complete(peer, request, result, keep) == 0) {
        r = message_write_result(out, request->id, result);
    }
    size_t size = buf_size(out) - before;
    bool is_too_long = request->batch
                           ? size > BATCH_SMALL_BYTES && buf_size(out) > BATCH_LARGE_BYTES
                           : size > LIMIT_LINE_OUT_BYTES;
    return response_end(peer, request, before, r == 0 && is_too_long ? -EMSGSIZE : r);
}

void peer_respond(struct rpc_peer *peer, struct rpc_request *request, json_t *result,
                  enum mcp_keep keep)
{
    json_auto_t *owned = result;
    int r = response_try(peer, request, owned, keep);
    if (r < 0) {
        peer_refuse(peer, request, RPC_INTERNAL_ERROR,
                    r == -EMSGSIZE ? "The response is too large" : "Out of memory", NULL);
    }
}

static json_t *too_long(bool in_batch)
{
    return json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                     in_batch ? "The call was carried out, but the results of the batch exceed 10 "
                                "MiB: this one was not sent."
                              : "The call was carried out, but its result exceeds 10 MiB and was "
                                "not sent.",
                     "isError", true);
}

void peer_respond_task(struct rpc_peer *peer, struct rpc_request *request, json_t *task,
                       json_t *result)
{
    bool whole = task && result && complete(peer, request, result, MCP_KEEP_UNSAID) == 0;
    if (json_object_set_new(task, "result", result) < 0) {
        whole = false;
    }
    peer_respond(peer, request, whole ? json_incref(task) : NULL, MCP_KEEP_UNSAID);
}

void peer_respond_work(struct rpc_peer *peer, struct rpc_request *request, json_t *result)
{
    json_auto_t *owned = result;
    int r = response_try(peer, request, owned, MCP_KEEP_UNSAID);
    if (r < 0) {
        peer_respond(peer, request, r == -EMSGSIZE ? too_long(request->batch) : NULL,
                     MCP_KEEP_UNSAID);
    }
}
