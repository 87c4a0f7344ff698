/* The methods of both generations of MCP. */
#include <string.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/peer.h"
#include "rpc/text.h"

enum {
    DISCOVER_TTL_MS = 3600 * 1000, /* tools and instructions stay as long as the process */
    POLL_MS = 1000,                /* to leave between two requests for a task */
};

/* Whether the call may stay open; if not, has refused it. */
static bool may_wait(struct rpc_call *call)
{
    return call->peer->call_count <= LIMIT_CALLS_IN_FLIGHT ||
           call_refuse(call, RPC_INTERNAL_ERROR,
                       "Too many calls in flight; wait until one has finished", NULL);
}

/* Of a list of one page: whether the request asks for it, with no cursor; if not, has refused it.
 */
static bool is_first_page(struct rpc_call *call, const json_t *params)
{
    const json_t *cursor = json_object_get(params, "cursor");
    return !cursor || json_is_null(cursor) ||
           call_refuse(call, RPC_INVALID_PARAMS, "Unknown cursor", NULL);
}

/* --- the first request --- */

static json_t *server_info(const struct rpc_peer *peer)
{
    return json_pack("{s:s, s:s*, s:s}", "name", peer->config.server_name, "title",
                     peer->config.server_title, "version", peer->config.server_version);
}

/* New: the first response to a client, with capabilities and instructions. has_tasks: calls may go
 * on as tasks. */
static json_t *greeting(const struct rpc_peer *peer, bool has_ui, bool has_tasks)
{
    json_t *instructions = peer->tools.instructions(peer->tools.ctx);
    json_t *extensions =
        has_ui || has_tasks
            ? json_pack("{s:o*, s:o*}", MCP_EXTENSION_UI, has_ui ? json_object() : NULL,
                        MCP_EXTENSION_TASKS, has_tasks ? json_object() : NULL)
            : NULL;
    return json_pack("{s:{s:{}, s:o*, s:o*}, s:o*}", "capabilities", "tools", "resources",
                     peer->tools.resources || has_ui ? json_object() : NULL, "extensions",
                     extensions, "instructions", instructions);
}

/* Source: ext-apps specification/2026-01-26/apps.mdx, "Client<>Server Capability Negotiation". */
bool mcp_ui_declared(const struct rpc_peer *peer, const json_t *capabilities)
{
    const json_t *types = json_object_get(
        json_object_get(json_object_get(capabilities, "extensions"), MCP_EXTENSION_UI),
        "mimeTypes");
    size_t i = 0;
    const json_t *type = NULL;
    json_array_foreach (types, i, type) {
        const char *text = rpc_text_plain(type);
        if (peer->tools.page && text && strcmp(text, RPC_VIEW_TYPE) == 0) {
            return true;
        }
    }
    return false;
}

static void initialize(struct rpc_call *call, const json_t *params)
{
    static const char *const versions[MCP_VERSION_COUNT] = {
        [MCP_VERSION_2024_11_05] = "2024-11-05",
        [MCP_VERSION_2025_03_26] = "2025-03-26",
        [MCP_VERSION_2025_06_18] = "2025-06-18",
        [MCP_VERSION_2025_11_25] = "2025-11-25",
    };
    struct rpc_peer *peer = call->peer;
    const char *wanted = rpc_text_plain(json_object_get(params, "protocolVersion"));
    enum mcp_version version = MCP_VERSION_2025_11_25; /* the latest of this generation */
    if (call->batch) {
        rpc_call_fail(call, RPC_INVALID_REQUEST,
                      "Invalid request: initialize must not be part of a batch");
        return;
    }
    for (unsigned i = MCP_VERSION_NONE + 1; wanted && i < MCP_VERSION_COUNT; i++) {
        if (strcmp(versions[i], wanted) == 0) {
            version = (enum mcp_version)i;
        }
    }
    const json_t *capabilities = json_object_get(params, "capabilities");
    bool has_ui = mcp_ui_declared(peer, capabilities);
    json_t *result = greeting(peer, has_ui, /* has_tasks= */ false);
    if (json_object_set_new(result, "protocolVersion", json_string(versions[version])) < 0 ||
        json_object_set_new(result, "serverInfo", server_info(peer)) < 0) {
        json_decref(take_ptr(result));
    }
    if (result) {
        peer->version = version;
        peer->can_elicit =
            version >= MCP_VERSION_2025_06_18 && elicitation_is_declared(capabilities);
        peer->has_ui = has_ui;
        peer->greeted = true;
    }
    call_respond(call, result, MCP_KEEP_UNSAID);
}

static void discover(struct rpc_call *call, const json_t *)
{
    struct rpc_peer *peer = call->peer;
    json_t *result = greeting(peer, call->has_ui, peer->tools.tasks != NULL);
    if (json_object_set_new(result, "supportedVersions", json_pack("[s]", MCP_STATELESS_VERSION)) <
        0) {
        json_decref(take_ptr(result));
    }
    peer->greeted = peer->greeted || result;
    call_respond(call, result, MCP_KEEP_LONG);
}

int mcp_complete(const struct rpc_call *call, json_t *result, enum mcp_keep keep)
{
    if (!call->is_stateless) {
        return 0;
    }
    if (!json_object_get(result, "_meta") &&
        json_object_set_new(result, "_meta", json_object()) < 0) {
        return -1;
    }
    bool kept = keep == MCP_KEEP_LONG;
    if (keep != MCP_KEEP_UNSAID &&
        (json_object_set_new(result, "ttlMs", json_integer(kept ? DISCOVER_TTL_MS : 0)) < 0 ||
         json_object_set_new(result, "cacheScope", json_string(kept ? "public" : "private")) < 0)) {
        return -1;
    }
    if (!json_object_get(result, "resultType") &&
        json_object_set_new(result, "resultType", json_string("complete")) < 0) {
        return -1;
    }
    return json_object_set_new(json_object_get(result, "_meta"), MCP_META_PREFIX "serverInfo",
                               server_info(call->peer));
}

static void ping(struct rpc_call *call, const json_t *)
{
    call_respond(call, json_object(), MCP_KEEP_UNSAID);
}

/* --- tools --- */

static void tools_list(struct rpc_call *call, const json_t *params)
{
    if (is_first_page(call, params)) {
        json_t *tools = call->peer->tools.list(call->peer->tools.ctx);
        call_respond(call, tools ? json_pack("{s:o}", "tools", tools) : NULL, MCP_KEEP_LONG);
    }
}

/* "Unknown tool: bash. run_python runs it. Tools: run_python, write_file" */
static void refuse_unknown(struct rpc_call *call, const char *name)
{
    char shown[120];
    size_t index = 0;
    const json_t *tool = NULL;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_auto_t *tools = call->peer->tools.list(call->peer->tools.ctx);
    buf_appendf(&text, "Unknown tool: %s. ", word_show(name, strlen(name), shown, sizeof shown));
    if (call->peer->tools.instead) {
        call->peer->tools.instead(call->peer->tools.ctx, name, &text);
    }
    json_array_foreach (tools, index, tool) {
        buf_appendf(&text, "%s%s",
                    index ? ", " : "Tools: ", json_string_value(json_object_get(tool, "name")));
    }
    rpc_call_fail(call, RPC_INVALID_PARAMS, buf_error(&text) ? "Unknown tool" : buf_text(&text));
}

static void tools_call(struct rpc_call *call, const json_t *params)
{
    const struct rpc_tools *tools = &call->peer->tools;
    const json_t *name = json_object_get(params, "name");
    json_t *sent = json_object_get(params, "arguments");
    if (!json_is_string(name)) {
        rpc_call_fail(call, RPC_INVALID_PARAMS, "Invalid params: name must be a string");
        return;
    }
    if (sent && !json_is_object(sent) && !json_is_null(sent)) {
        rpc_call_fail(call, RPC_INVALID_PARAMS, "Invalid params: arguments must be an object");
        return;
    }
    json_auto_t *arguments = json_is_object(sent) ? json_incref(sent) : json_object();
    const char *text = rpc_text_plain(name);
    if (!may_wait(call)) {
        return;
    }
    if (!arguments) {
        rpc_call_fail(call, RPC_INTERNAL_ERROR, "Out of memory");
    } else if (!text || !tools->start(tools->ctx, call, text, arguments)) {
        refuse_unknown(call, json_string_value(name));
    }
}

/* --- resources: methods that do not exist where tools has none, for a client that shows no views;
 * but each client may read a view --- */

static bool have_resources(struct rpc_call *call)
{
    return call->peer->tools.resources || call->has_ui ||
           call_refuse(call, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
}

static void resources_list(struct rpc_call *call, const json_t *params)
{
    const struct rpc_tools *tools = &call->peer->tools;
    const json_t *cursor = json_object_get(params, "cursor");
    if (!have_resources(call)) {
        return;
    }
    if (cursor && !json_is_null(cursor) && !rpc_text_plain(cursor)) {
        rpc_call_fail(call, RPC_INVALID_PARAMS, "Unknown cursor");
    } else if (!tools->resources) {
        json_t *view = tools->page ? tools->page(tools->ctx, NULL) : NULL;
        call_respond(call, json_pack("{s:[o*]}", "resources", view), MCP_KEEP_LONG);
    } else if (may_wait(call)) {
        tools->resources->list(tools->ctx, call, json_string_value(cursor));
    }
}

static void resources_templates(struct rpc_call *call, const json_t *params)
{
    if (!have_resources(call) || !is_first_page(call, params)) {
        return;
    }
    const struct rpc_resources *resources = call->peer->tools.resources;
    json_t *templates = resources ? resources->templates(call->peer->tools.ctx) : json_array();
    call_respond(call, templates ? json_pack("{s:o}", "resourceTemplates", templates) : NULL,
                 MCP_KEEP_LONG);
}

static void resources_read(struct rpc_call *call, const json_t *params)
{
    const struct rpc_tools *tools = &call->peer->tools;
    const char *uri = rpc_text_plain(json_object_get(params, "uri"));
    json_t *view = uri && tools->page ? tools->page(tools->ctx, uri) : NULL;
    if (view) {
        call_respond(call, json_pack("{s:[o]}", "contents", view), MCP_KEEP_LONG);
        return;
    }
    if (!have_resources(call)) {
        return;
    }
    if (!uri) {
        rpc_call_fail(call, RPC_INVALID_PARAMS, "Invalid params: uri must be a string");
    } else if (may_wait(call)) {
        if (tools->resources) {
            tools->resources->read(tools->ctx, call, uri);
        } else {
            rpc_call_not_found(call, uri);
        }
    }
}

/* --- tasks: the extension io.modelcontextprotocol/tasks of 2026-07-28: a call may get a task
 * instead of its result, and the client asks for the task until it has that.
 * Source: ext-tasks specification/2026-07-28/tasks.md. notifications/tasks, which is optional, is
 * left out. Methods that do not exist where tools has no tasks. --- */

/* Whether the request declares them; if not, has refused it. */
static bool declares_tasks(struct rpc_call *call)
{
    if (call->has_tasks) {
        return true;
    }
    json_auto_t *data =
        json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", MCP_EXTENSION_TASKS);
    return call_refuse(call, RPC_MISSING_CAPABILITY,
                       "The request does not declare the extension " MCP_EXTENSION_TASKS, data);
}

/* The task that the request is about, borrowed; NULL: the request was refused. */
static const char *find_task(struct rpc_call *call, const json_t *params)
{
    const struct rpc_tools *tools = &call->peer->tools;
    if (!tools->tasks) {
        rpc_call_fail(call, RPC_METHOD_NOT_FOUND, "Method not found");
        return NULL;
    }
    if (!declares_tasks(call)) {
        return NULL;
    }
    const char *id = rpc_text_plain(json_object_get(params, "taskId"));
    if (!id || !tools->tasks->exists(tools->ctx, id)) {
        rpc_call_fail(call, RPC_INVALID_PARAMS, "taskId must name a task");
        return NULL;
    }
    return id;
}

static void tasks_get(struct rpc_call *call, const json_t *params)
{
    const char *id = find_task(call, params);
    if (id) {
        call->gets_task = true;
        call->peer->tools.tasks->get(call->peer->tools.ctx, call, id);
    }
}

static void tasks_cancel(struct rpc_call *call, const json_t *params)
{
    const char *id = find_task(call, params);
    if (id) {
        call->peer->tools.tasks->cancel(call->peer->tools.ctx, id);
        call_respond(call, json_object(), MCP_KEEP_UNSAID);
    }
}

static void tasks_update(struct rpc_call *call, const json_t *params)
{
    const char *id = find_task(call, params);
    if (id) { /* responses to unknown keys are ignored */
        call->gets_task = true;
        call->peer->tools.tasks->update(call->peer->tools.ctx, call, id);
        call_respond(call, json_object(), MCP_KEEP_UNSAID);
    }
}

bool rpc_call_wants_task(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.tasks && call->has_tasks;
}

static json_t *task_json(const struct rpc_task *task)
{
    static const char *const names[RPC_TASK_STATUS_COUNT] = {
        [RPC_TASK_WORKING] = "working",
        [RPC_TASK_COMPLETED] = "completed",
        [RPC_TASK_CANCELLED] = "cancelled",
    };
    char created[RPC_TIME_BYTES];
    char updated[RPC_TIME_BYTES];
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:I, s:i}", "taskId", task->id, "status",
                     names[task->status], "statusMessage",
                     rpc_text(task->message, strlen(task->message)), "createdAt",
                     rpc_text_time(task->created_ms, created), "lastUpdatedAt",
                     rpc_text_time(task->updated_ms, updated), "ttlMs", (json_int_t)task->ttl_ms,
                     "pollIntervalMs", POLL_MS);
}

void rpc_call_set_task(struct rpc_call *call, const struct rpc_task *task)
{
    json_decref(call->task);
    call->task = task_json(task);
}

void rpc_call_task(struct rpc_call *call, const struct rpc_task *task)
{
    json_t *result = task_json(task);
    if (call->input) {
        (void)json_object_set_new(result, "status", json_string("input_required"));
        (void)json_object_set(result, "inputRequests", call->input);
    }
    if (result && !call->gets_task &&
        json_object_set_new(result, "resultType", json_string("task")) < 0) {
        json_decref(take_ptr(result));
    }
    call_respond(call, result, MCP_KEEP_UNSAID);
}

/* --- subscriptions --- */

/* The request stays open until it is cancelled or the connection ends. Nothing that a client can
 * subscribe to ever changes, so the honoured subset is empty. */
#define META_SUBSCRIPTION MCP_META_PREFIX "subscriptionId"
static void listen_open(struct rpc_call *call, const json_t *params)
{
    struct rpc_peer *peer = call->peer;
    if (call->batch) {
        rpc_call_fail(call, RPC_INVALID_REQUEST,
                      "Invalid request: subscriptions/listen must not be part of a batch");
        return;
    }
    if (json_object_get(json_object_get(params, "notifications"), "taskIds") && peer->tools.tasks &&
        !declares_tasks(call)) {
        return;
    }
    if (!may_wait(call)) {
        return;
    }
    call->subscription = true;
    if (peer_notify(peer, "notifications/subscriptions/acknowledged",
                    json_pack("{s:{}, s:{s:O}}", "notifications", "_meta", META_SUBSCRIPTION,
                              call->id)) < 0) {
        call_respond(call, NULL, MCP_KEEP_UNSAID);
    }
}

void mcp_finish(struct rpc_peer *peer)
{
    struct rpc_call *next = NULL;
    for (struct rpc_call *call = peer->calls; call; call = next) {
        next = call->next;
        if (call->subscription) {
            call_respond(call, json_pack("{s:{s:O}}", "_meta", META_SUBSCRIPTION, call->id),
                         MCP_KEEP_UNSAID);
        }
    }
}

const struct rpc_method mcp_methods[] = {
    {"tools/call", tools_call, true, true},
    {"tools/list", tools_list, true, true},
    {"resources/list", resources_list, true, true},
    {"resources/templates/list", resources_templates, true, true},
    {"resources/read", resources_read, true, true},
    {"ping", ping, true, false},
    {"initialize", initialize, true, false},
    {"server/discover", discover, false, true},
    {"subscriptions/listen", listen_open, false, true},
    {"tasks/get", tasks_get, false, true},
    {"tasks/cancel", tasks_cancel, false, true},
    {"tasks/update", tasks_update, false, true},
    {},
};
