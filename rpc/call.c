/* The life of a request: call_new(), while it is in flight a member of its peer's calls, then
 * exactly one response, or none if it was cancelled. Each response is written whole or not at all.
 */
#include "rpc/call.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/peer.h"
#include "rpc/text.h"

/* --- writing --- */

/* Large results may fill a batch's line up to here; all others of it fit behind. */
enum {
    BATCH_SMALL_BYTES = 1024,
    BATCH_LARGE_BYTES = LIMIT_LINE_OUT_BYTES - (size_t)LIMIT_BATCH_MESSAGES * BATCH_SMALL_BYTES - 2
};

struct rpc_batch {
    struct buf responses; /* separated by commas */
    size_t pending;       /* calls that have not ended, and one until the batch is closed */
};

struct rpc_batch *call_batch_new(void)
{
    struct rpc_batch *batch = calloc(1, sizeof *batch);
    if (batch) {
        batch->pending = 1;
    }
    return batch;
}

void call_batch_close(struct rpc_peer *peer, struct rpc_batch *batch)
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

/* Where a response is written, behind a comma if it is not the first of a batch. ret_before: the
 * size without it. */
static struct buf *response_begin(const struct rpc_call *call, size_t *ret_before)
{
    struct buf *out = call->batch ? &call->batch->responses : &call->peer->out;
    *ret_before = buf_size(out);
    buf_append_text(out, call->batch && *ret_before > 0 ? "," : "");
    return out;
}

/* Completes a response if it could be written, r, and returns 0; else takes it back. */
static int response_end(const struct rpc_call *call, struct buf *out, size_t before, int r)
{
    r = r ? r : buf_append_text(out, call->batch ? "" : "\n");
    if (r < 0) {
        buf_cut(out, before);
        log_error("rpc", "cannot send a response: %s",
                  r == -EMSGSIZE ? "it is too large" : "out of memory");
    } else if (!call->batch) {
        call->peer->written(call->peer->arg);
    }
    return r;
}

void call_send_error(const struct rpc_call *line, int code, const char *text, const json_t *data)
{
    size_t before = 0;
    struct buf *out = response_begin(line, &before);
    log_debug("rpc", "refused code=%d %s", code, text);
    (void)response_end(line, out, before, message_write_error(out, line->id, code, text, data));
}

/* result: borrowed; NULL: out of memory. */
static int send_result(const struct rpc_call *call, json_t *result, enum mcp_keep keep)
{
    size_t before = 0;
    struct buf *out = response_begin(call, &before);
    int r = -ENOMEM;
    if (result && mcp_complete(call, result, keep) == 0) {
        r = message_write_result(out, call->id, result);
    }
    size_t size = buf_size(out) - before;
    bool is_too_long = call->batch ? size > BATCH_SMALL_BYTES && buf_size(out) > BATCH_LARGE_BYTES
                                   : size > LIMIT_LINE_OUT_BYTES;
    return response_end(call, out, before, r == 0 && is_too_long ? -EMSGSIZE : r);
}

/* The same, or an error in its place. */
static void send_response(const struct rpc_call *call, json_t *result, enum mcp_keep keep)
{
    int r = send_result(call, result, keep);
    if (r < 0) {
        call_send_error(call, RPC_INTERNAL_ERROR,
                        r == -EMSGSIZE ? "The response is too large" : "Out of memory", NULL);
    }
}

/* The same for the result of a tool that has done its work: replaces one that is longer than
 * LIMIT_LINE_OUT_BYTES by a sentence that says so. */
static void send_work(const struct rpc_call *call, json_t *result)
{
    static const char alone[] =
        "The call was carried out, but its result exceeds 10 MiB and was not sent.";
    static const char in_batch[] =
        "The call was carried out, but the results of the batch exceed "
        "10 MiB: this one was not sent.";
    int r = send_result(call, result, MCP_KEEP_UNSAID);
    if (r < 0) {
        json_auto_t *too_long =
            r == -EMSGSIZE ? json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
                                       call->batch ? in_batch : alone, "isError", true)
                           : NULL;
        send_response(call, too_long, MCP_KEEP_UNSAID);
    }
}

/* The same for the result of the call's task. */
static void send_task(const struct rpc_call *call, json_t *result)
{
    bool whole = call->task && result && mcp_complete(call, result, MCP_KEEP_UNSAID) == 0 &&
                 json_object_set(call->task, "result", result) == 0;
    send_response(call, whole ? call->task : NULL, MCP_KEEP_UNSAID);
}

/* --- the life of a call --- */

struct rpc_call *call_new(const struct rpc_call *line)
{
    struct rpc_peer *peer = line->peer;
    struct rpc_call *call = calloc(1, sizeof *call);
    if (!call) {
        call_send_error(line, RPC_INTERNAL_ERROR, "Out of memory", NULL);
        return NULL;
    }
    *call = (struct rpc_call){.peer = peer,
                              .next = peer->calls,
                              .id = json_incref(line->id),
                              .batch = line->batch,
                              .progress = -1,
                              .since_ns = clock_now_ns()};
    if (call->batch) {
        call->batch->pending++;
    }
    peer->calls = call;
    peer->call_count++;
    return call;
}

/* Frees what only a response needs. A batch does not wait for the call any more. */
static void call_drop(struct rpc_call *call)
{
    struct rpc_batch *batch = take_ptr(call->batch);
    json_decref(take_ptr(call->id));
    json_decref(take_ptr(call->progress_token));
    json_decref(take_ptr(call->input_responses));
    json_decref(take_ptr(call->request_state));
    if (batch) {
        call_batch_close(call->peer, batch);
    }
}

static void call_free(struct rpc_call *call)
{
    call_drop(call);
    json_decref(call->meta);
    json_decref(call->trace);
    json_decref(call->input);
    json_decref(call->task);
    free(call);
}

/* Takes the call off its peer. Returns whether it gets a response; call_free() follows. */
static bool call_end(struct rpc_call *call)
{
    assert(!call->ended); /* each call is ended exactly once */
    call->ended = true;
    if (call->peer) {
        (void)list_remove(&call->peer->calls, call);
        call->peer->call_count--;
    }
    elicitation_drop(call);
    if (call->on_end) {
        call->on_end(call->on_end_arg);
    }
    return !call->cancelled;
}

struct rpc_call *call_find(const struct rpc_peer *peer, const json_t *id)
{
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        if (!call->cancelled && json_equal(call->id, id)) {
            return call;
        }
    }
    return NULL;
}

void call_cancel(struct rpc_call *call)
{
    struct rpc_peer *peer = call->peer;
    assert(!call->cancelled);
    call->cancelled = true;
    if (call->subscription) {
        (void)call_end(call);
        call_free(call);
        return;
    }
    call_drop(call); /* a batch must not wait for a tool that is still stopping */
    if (!elicitation_give_up(call)) {
        peer->tools.cancel(peer->tools.ctx, call);
    }
}

static struct rpc_call *call_first_live(const struct rpc_peer *peer)
{
    struct rpc_call *call = peer->calls;
    while (call && call->cancelled) {
        call = call->next;
    }
    return call;
}

void call_cancel_all(struct rpc_peer *peer)
{
    struct rpc_call *call = NULL;
    /* Starts over each time: a tool that is notified of one cancelled call may end any of its
     * calls. */
    while ((call = call_first_live(peer))) {
        call_cancel(call);
    }
}

void rpc_peer_done(struct rpc_peer *peer)
{
    call_cancel_all(peer);
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        call->peer = NULL;
    }
    peer->calls = NULL;
    peer->call_count = 0;
    buf_done(&peer->out);
}

bool call_refuse(struct rpc_call *call, int code, const char *text, const json_t *data)
{
    if (call_end(call)) {
        call_send_error(call, code, text, data);
    }
    call_free(call);
    return false;
}

void call_respond(struct rpc_call *call, json_t *result, enum mcp_keep keep)
{
    json_auto_t *owned = result;
    if (call_end(call)) {
        send_response(call, owned, keep);
    }
    call_free(call);
}

/* --- what tools call --- */

void rpc_call_result(struct rpc_call *call, json_t *content, json_t *structured, bool is_error)
{
    json_auto_t *owned_content = content;
    json_auto_t *owned_structured = structured;
    if (call->note[0]) { /* the result goes without it when there is no memory */
        (void)json_array_append_new(owned_content,
                                    json_pack("{s:s, s:s}", "type", "text", "text", call->note));
    }
    call->content = owned_content;
    call->is_error = is_error;
    if (call_end(call)) {
        bool sends = owned_structured && call->has_structured;
        json_auto_t *result =
            json_pack("{s:O, s:O*, s:O*, s:o*}", "content", owned_content, "structuredContent",
                      sends ? owned_structured : NULL, "_meta", call->meta, "isError",
                      is_error ? json_true() : NULL);
        (call->gets_task ? send_task : send_work)(call, result);
    }
    call_free(call);
}

void rpc_call_fail(struct rpc_call *call, int code, const char *message)
{
    (void)call_refuse(call, code, message, NULL);
}

void rpc_call_respond(struct rpc_call *call, json_t *result)
{
    call_respond(call, result, MCP_KEEP_NOT);
}

void rpc_call_not_found(struct rpc_call *call, const char *uri)
{
    json_auto_t *data = json_pack("{s:o}", "uri", rpc_text(uri, strlen(uri)));
    (void)call_refuse(call, call->is_stateless ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND,
                      "Resource not found", data);
}

bool rpc_call_wants_structured(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.structured && call->has_structured;
}

/* Version 2025-06-18 added both structured content and resource links. */
bool rpc_call_wants_links(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.resources && call->has_structured;
}

bool rpc_call_wants_view(const struct rpc_call *call)
{
    return !call->cancelled && call->has_ui;
}

bool rpc_call_wants_progress(const struct rpc_call *call)
{
    return !call->cancelled && call->progress_token;
}

void rpc_call_progress(struct rpc_call *call, double progress, const char *message)
{
    uint64_t now_ns = clock_now_ns();
    struct rpc_peer *peer = call->peer;
    if (!rpc_call_wants_progress(call) || !(progress > call->progress) ||
        (call->progress >= 0 &&
         now_ns - call->progress_ns < LIMIT_PROGRESS_GAP_MS * CLOCK_NS_PER_MS) ||
        buf_size(&peer->out) > LIMIT_OUT_QUEUE_BYTES) {
        return;
    }
    call->progress = progress;
    call->progress_ns = now_ns;
    json_t *text = message ? rpc_text(message, strlen(message)) : NULL;
    (void)peer_notify(peer, "notifications/progress", /* which may be lost, unlike a response */
                      json_pack("{s:O, s:f, s:o*}", "progressToken", call->progress_token,
                                "progress", progress, "message", text));
}

bool rpc_call_cancelled(const struct rpc_call *call)
{
    return call->cancelled;
}

uint64_t rpc_call_since_ns(const struct rpc_call *call)
{
    return call->since_ns;
}

void rpc_call_on_end(struct rpc_call *call, void (*fn)(void *arg), void *arg)
{
    call->on_end = fn;
    call->on_end_arg = arg;
}

const json_t *rpc_call_content(const struct rpc_call *call, bool *ret_is_error)
{
    *ret_is_error = call->is_error || !call->content;
    return call->content;
}

size_t rpc_call_unmark(struct rpc_call *call, json_t *value)
{
    size_t count = call->peer && call->peer->marked ? rpc_text_unmark(value, NULL) : 0;
    call->halves += count;
    return count;
}

size_t rpc_call_halves(const struct rpc_call *call)
{
    return call->halves;
}

void rpc_call_set_note(struct rpc_call *call, const char *text)
{
    (void)snprintf(call->note, sizeof call->note, "%s", text);
}

void rpc_call_set_meta(struct rpc_call *call, const char *key, json_t *value)
{
    if (value && !call->meta) {
        call->meta = json_object();
    }
    (void)json_object_set_new(call->meta, key, value);
}

const json_t *rpc_call_meta(const struct rpc_call *call, const char *key)
{
    return json_object_get(call->meta, key);
}

json_t *rpc_call_trace(const struct rpc_call *call)
{
    return call->trace;
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}
