#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/peer.h"
#include "rpc/text.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { STATE_MEMBERS = 32, STATE_KEY_BYTES = 256, STATE_VALUE_BYTES = 256 };

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

/* W3C Trace Context level 2, section 3.2. A later version may be longer, in a form that nobody can
 * check yet. */
static bool is_traceparent(const char *text)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    size_t i = 0;
    for (; form[i]; i++) {
        if (form[i] == 'x' ? strspn(text + i, DIGITS "abcdef") == 0 : text[i] != form[i]) {
            return false;
        }
    }
    return !text[i] && strncmp(text, "ff", 2) != 0 && strspn(text + 3, "0") < 32 &&
           strspn(text + 36, "0") < 16;
}

/* The size of a member's value, without the blanks behind it; 0: it is none. */
static size_t state_value_size(const char *value)
{
    size_t size = 0;
    while (value[size] >= ' ' && value[size] < 0x7f && value[size] != ',' && value[size] != '=') {
        size++;
    }
    while (size > 0 && value[size - 1] == ' ') {
        size--;
    }
    return size <= STATE_VALUE_BYTES ? size : 0;
}

/* The same, section 3.3: key=value, with commas between. A member may be empty, but not all. */
static bool is_tracestate(const char *text)
{
    struct span keys[STATE_MEMBERS];
    unsigned count = 0;
    while (true) {
        text = skip_blanks(text);
        size_t key = strspn(text, LOWER DIGITS "_-*/@");
        size_t size = text[key] == '=' ? state_value_size(text + key + 1) : 0;
        if (key > STATE_KEY_BYTES || (key > 0 && (size == 0 || count == STATE_MEMBERS)) ||
            (key > 0 && strspn(text, LOWER DIGITS) == 0)) {
            return false;
        }
        for (unsigned i = 0; i < count; i++) {
            if (keys[i].size == key && memcmp(keys[i].bytes, text, key) == 0) {
                return false;
            }
        }
        if (key > 0) {
            keys[count++] = (struct span){text, key};
            text = skip_blanks(text + key + 1 + size);
        }
        if (*text != ',') {
            return !*text && count > 0;
        }
        text++;
    }
}

/* What follows on key=value, or on a key alone; NULL: it is neither. */
static const char *skip_pair(const char *text, bool needs_value)
{
    text = skip_blanks(text);
    size_t key = strspn(text, LOWER UPPER DIGITS "!#$%&'*+-.^_`|~");
    text = skip_blanks(text + key);
    if (key == 0 || (needs_value && *text != '=')) {
        return NULL;
    }
    if (*text == '=') {
        text = skip_blanks(text + 1);
        while (*text > ' ' && *text < 0x7f && !strchr("\",;\\", *text)) {
            text++;
        }
    }
    return skip_blanks(text);
}

/* W3C Baggage, section 3.3.1: pairs with commas between, each with properties behind semicolons. */
static bool is_baggage(const char *text)
{
    while (true) {
        text = skip_pair(text, /* needs_value= */ true);
        while (text && *text == ';') {
            text = skip_pair(text + 1, /* needs_value= */ false);
        }
        if (!text || *text != ',') {
            return text && !*text;
        }
        text++;
    }
}

json_t *rpc_trace_new(const json_t *meta)
{
    static const struct {
        const char *name;
        bool (*fits)(const char *text);
        bool needs_parent; /* without a valid traceparent it means nothing */
    } parts[] = {{"traceparent", is_traceparent, false},
                 {"tracestate", is_tracestate, true},
                 {"baggage", is_baggage, false}};
    json_t *trace = NULL;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *value = json_object_get(meta, parts[i].name);
        const char *text = rpc_text_plain(value);
        if (text && json_string_length(value) <= LIMIT_TRACE_BYTES &&
            (trace || !parts[i].needs_parent) && parts[i].fits(text)) {
            trace = trace ? trace : json_object();
            (void)json_object_set(trace, parts[i].name, value);
        }
    }
    return trace;
}

/* The lines of a client: which of its requests are admitted, by the generation of the protocol that
 * they belong to, and which method carries them out.
 *
 * The revisions 2024-11-05 to 2025-11-25 have one initialize for the process, then requests that
 * rely on it. notifications/initialized is never required, and a second initialize replaces the
 * first. 2026-07-28 has no initialize: each request names its version and is checked alone. */

static void dispatch_notification(struct rpc_peer *peer, const struct message *message)
{
    if (strcmp(message->method, "notifications/cancelled") != 0) {
        return;
    }
    struct rpc_call *call = call_find(peer, json_object_get(message->params, "requestId"));
    if (call) { /* else it has ended or never existed: the specification requires silence */
        call_cancel(call);
    }
}

/* Whether meta has a key of the later generation: its sender forgot the version. */
static bool has_client_key(const json_t *meta)
{
    static const char prefix[] = MCP_META_PREFIX "client";
    json_t *object = (json_t *)(uintptr_t)meta; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (object, key, value) {
        if (strncmp(key, prefix, sizeof prefix - 1) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether the call may go on; if not, has refused it. */
static bool admit_stateful(struct rpc_call *call, const char *method, const json_t *meta)
{
    const struct rpc_peer *peer = call->peer;
    call->can_elicit = peer->can_elicit;
    call->has_ui = peer->has_ui;
    call->has_structured = peer->version >= MCP_VERSION_2025_06_18;
    if (has_client_key(meta)) {
        return call_refuse(call, RPC_INVALID_PARAMS,
                           "Invalid _meta: " MCP_META_VERSION " is required", NULL);
    }
    if (peer->version == MCP_VERSION_NONE && strcmp(method, "initialize") != 0 &&
        strcmp(method, "ping") != 0) {
        return call_refuse(
            call, RPC_INVALID_PARAMS,
            "Request lacks _meta (2026-07-28) and no initialize was received (2025-11-25 "
            "and earlier)",
            NULL);
    }
    return true;
}

/* The same of 2026-07-28. */
static bool admit_stateless(struct rpc_call *call, const json_t *params, const json_t *meta)
{
    const json_t *version = json_object_get(meta, MCP_META_VERSION);
    const json_t *capabilities = json_object_get(meta, MCP_META_CAPABILITIES);
    call->is_stateless = true;
    if (!json_is_string(version) || !json_is_object(capabilities)) {
        return call_refuse(call, RPC_INVALID_PARAMS,
                           "Invalid _meta: " MCP_META_VERSION " (string) and " MCP_META_CAPABILITIES
                           " (object) are required",
                           NULL);
    }
    const char *text = rpc_text_plain(version);
    if (!text || strcmp(text, MCP_STATELESS_VERSION) != 0) {
        json_auto_t *data =
            json_pack("{s:[s], s:O}", "supported", MCP_STATELESS_VERSION, "requested", version);
        return call_refuse(call, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version", data);
    }
    json_t *responses = json_object_get(params, "inputResponses");
    if (responses && !json_is_object(responses)) {
        return call_refuse(call, RPC_INVALID_PARAMS,
                           "Invalid params: inputResponses must be an object", NULL);
    }
    json_t *state = json_object_get(params, "requestState");
    if (state && !json_is_null(state) && !rpc_text_plain(state)) { /* else it would run anew */
        return call_refuse(call, RPC_INVALID_PARAMS,
                           "Invalid params: requestState must be a string, as it was sent", NULL);
    }
    call->input_responses = json_incref(responses);
    call->request_state = json_incref(state);
    call->can_elicit = elicitation_is_declared(capabilities);
    call->has_tasks = json_is_object(
        json_object_get(json_object_get(capabilities, "extensions"), MCP_EXTENSION_TASKS));
    call->has_ui = mcp_ui_declared(call->peer, capabilities);
    call->has_structured = true;
    return true;
}

static void dispatch_call(struct rpc_call *call, const char *name, const json_t *params)
{
    if (params && !json_is_object(params)) {
        (void)call_refuse(call, RPC_INVALID_PARAMS, "Invalid params: must be an object", NULL);
        return;
    }
    const json_t *meta = json_object_get(params, "_meta");
    /* A token of another type: sends no progress, the request itself is valid. */
    call->progress_token = json_incref(rpc_id(json_object_get(meta, "progressToken")));
    call->trace = rpc_trace_new(meta);
    bool admitted = json_object_get(meta, MCP_META_VERSION) ? admit_stateless(call, params, meta)
                                                            : admit_stateful(call, name, meta);
    if (!admitted) {
        return;
    }
    for (const struct rpc_method *method = mcp_methods; method->name; method++) {
        if (strcmp(method->name, name) == 0 &&
            (call->is_stateless ? method->is_stateless : method->is_stateful)) {
            method->fn(call, params);
            return;
        }
    }
    (void)call_refuse(call, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
}

static void dispatch_message(struct rpc_peer *peer, json_t *value, struct rpc_batch *batch)
{
    struct message message;
    message_classify(value, &message);
    const struct rpc_call line = {.peer = peer, .id = message.id, .batch = batch};
    if (message.kind == MESSAGE_INVALID) {
        call_send_error(&line, RPC_INVALID_REQUEST, message.problem, NULL);
    } else if (message.kind == MESSAGE_NOTIFICATION) {
        dispatch_notification(peer, &message);
    } else if (message.kind == MESSAGE_RESPONSE) {
        elicitation_receive(peer, message.id, json_object_get(value, "result"));
    } else if (call_find(peer, message.id)) {
        call_send_error(&line, RPC_INVALID_REQUEST,
                        "Invalid request: a request with this id is in flight", NULL);
    } else {
        log_trace("rpc", "request method=%s", message.method);
        struct rpc_call *call = call_new(&line);
        if (call) {
            dispatch_call(call, message.method, message.params);
        }
    }
}

static void dispatch_batch(const struct rpc_call *line, json_t *array)
{
    struct rpc_peer *peer = line->peer;
    size_t size = json_array_size(array);
    if (peer->version != MCP_VERSION_2025_03_26) {
        call_send_error(line, RPC_INVALID_REQUEST,
                        "Invalid request: batches are not part of this protocol version", NULL);
        return;
    }
    if (size == 0 || size > LIMIT_BATCH_MESSAGES) {
        call_send_error(
            line, RPC_INVALID_REQUEST,
            size == 0 ? "Invalid request: empty batch" : "Invalid request: batch too long", NULL);
        return;
    }
    struct rpc_batch *batch = call_batch_new();
    if (!batch) {
        call_send_error(line, RPC_INTERNAL_ERROR, "Out of memory", NULL);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        dispatch_message(peer, json_array_get(array, i), batch);
    }
    call_batch_close(peer, batch);
}

void dispatch_line(struct rpc_peer *peer, struct span text)
{
    struct rpc_call line = {.peer = peer};
    enum rpc_code code = RPC_PARSE_ERROR;
    const char *problem = NULL;
    peer->marked = false;
    json_auto_t *value = message_parse(text, &code, &problem, &line.id, &peer->marked);
    if (peer->marked) { /* the arguments of a tool stay marked: rpc_call_unmark() */
        const json_t *params = json_object_get(value, "params");
        (void)rpc_text_unmark(value, json_object_get(params, "arguments"));
    }
    if (!value) {
        call_send_error(&line, (int)code, problem, NULL);
    } else if (json_is_array(value)) {
        dispatch_batch(&line, value);
    } else {
        dispatch_message(peer, value, NULL);
    }
    json_decref(line.id);
}

void dispatch_too_long(struct rpc_peer *peer, struct span outline)
{
    json_auto_t *id = message_rescue_id(outline);
    const struct rpc_call line = {.peer = peer, .id = id};
    call_send_error(&line, RPC_INVALID_REQUEST, "Invalid request: the line is longer than 16 MiB",
                    NULL);
}
