#include "rpc/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "rpc/call_table.h"
#include "rpc/elicitation.h"
#include "rpc/text.h"

struct rpc_call *call_new(struct rpc_peer *peer, struct rpc_request *request)
{
    struct rpc_call *call = calloc(1, sizeof *call);
    if (!call) {
        return NULL;
    }
    call->peer = peer;
    call->request = *request;
    call->request.method = NULL;
    call->request.params = NULL;
    call->progress = -1;
    call->since_ns = clock_now_ns();
    call->next = peer->calls;
    if (call->next) {
        call->next->prev = call;
    }
    peer->calls = call;
    peer->call_count++;
    *request = (struct rpc_request){};
    return call;
}

bool call_end(struct rpc_call *call, struct rpc_request *ret_request)
{
    struct rpc_peer *peer = call->peer;
    bool cancelled = call->cancelled;
    assert(!call->ended); /* each call is ended exactly once */
    call->ended = true;
    if (peer) {
        if (call->prev) {
            call->prev->next = call->next;
        } else {
            peer->calls = call->next;
        }
        if (call->next) {
            call->next->prev = call->prev;
        }
        peer->call_count--;
    }
    elicitation_drop(peer, call);
    json_decref(call->task);
    json_decref(call->input);
    if (call->on_end) {
        call->on_end(call->on_end_arg);
    }
    *ret_request = call->request;
    json_decref(call->meta);
    free(call);
    return !cancelled;
}

struct rpc_call *call_find(const struct rpc_peer *peer, const json_t *id)
{
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        if (!call->cancelled && json_equal(call->request.id, id)) {
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
        struct rpc_request request = {};
        (void)call_end(call, &request);
        peer_drop(peer, &request);
        return;
    }
    /* A batch must not wait for a tool that is still stopping. */
    peer_drop(peer, &call->request);
    if (!elicitation_give_up(peer, call)) {
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

void call_forget_all(struct rpc_peer *peer)
{
    for (struct rpc_call *call = peer->calls; call; call = call->next) {
        call->peer = NULL;
    }
    peer->calls = NULL;
    peer->call_count = 0;
}

void rpc_call_result(struct rpc_call *call, json_t *content, json_t *structured, bool is_error)
{
    struct rpc_peer *peer = call->peer;
    json_auto_t *owned_content = content;
    json_auto_t *owned_structured = structured;
    json_auto_t *owned_meta = json_incref(call->meta);
    json_auto_t *task = json_incref(call->task);
    bool gets_task = call->gets_task;
    struct rpc_request request = {};
    if (call->note[0]) { /* the result goes without it when there is no memory */
        (void)json_array_append_new(owned_content,
                                    json_pack("{s:s, s:s}", "type", "text", "text", call->note));
    }
    call->content = owned_content;
    call->is_error = is_error;
    if (!call_end(call, &request)) {
        return;
    }
    bool sends = owned_structured && request.context.has_structured;
    json_t *result = json_pack("{s:O, s:O*, s:O*, s:o*}", "content", owned_content,
                               "structuredContent", sends ? owned_structured : NULL, "_meta",
                               owned_meta, "isError", is_error ? json_true() : NULL);
    if (gets_task) {
        peer_respond_task(peer, &request, task, result);
    } else {
        peer_respond_work(peer, &request, result);
    }
}

void rpc_call_fail(struct rpc_call *call, int code, const char *message)
{
    struct rpc_peer *peer = call->peer;
    struct rpc_request request = {};
    if (call_end(call, &request)) {
        peer_refuse(peer, &request, code, message, NULL);
    }
}

void rpc_call_respond(struct rpc_call *call, json_t *result)
{
    call_respond(call, result, MCP_KEEP_NOT);
}

void call_respond(struct rpc_call *call, json_t *result, enum mcp_keep keep)
{
    struct rpc_peer *peer = call->peer;
    struct rpc_request request = {};
    if (call_end(call, &request)) {
        peer_respond(peer, &request, result, keep);
    } else {
        json_decref(result);
    }
}

void rpc_call_not_found(struct rpc_call *call, const char *uri)
{
    struct rpc_peer *peer = call->peer;
    struct rpc_request request = {};
    if (call_end(call, &request)) {
        json_auto_t *data = json_pack("{s:o}", "uri", rpc_text(uri, strlen(uri)));
        peer_refuse(peer, &request, request.context.era->not_found, "Resource not found", data);
    }
}

bool rpc_call_wants_structured(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.structured &&
           call->request.context.has_structured;
}

/* Version 2025-06-18 added both structured content and resource links. */
bool rpc_call_wants_links(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.resources &&
           call->request.context.has_structured;
}

bool rpc_call_wants_view(const struct rpc_call *call)
{
    return !call->cancelled && call->request.context.has_ui;
}

bool rpc_call_wants_progress(const struct rpc_call *call)
{
    return !call->cancelled && call->request.context.progress_token;
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
                      json_pack("{s:O, s:f, s:o*}", "progressToken",
                                call->request.context.progress_token, "progress", progress,
                                "message", text));
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

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
    return call->data;
}
