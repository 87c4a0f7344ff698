#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call_table.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

json_t *mcp_server_info(const struct rpc_peer *peer)
{
    return json_pack("{s:s, s:s*, s:s}", "name", peer->config.server_name, "title",
                     peer->config.server_title, "version", peer->config.server_version);
}

json_t *mcp_greeting(const struct rpc_peer *peer, bool has_ui, bool has_tasks)
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

bool mcp_is_first_page(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *cursor = json_object_get(request->params, "cursor");
    bool is_first = !cursor || json_is_null(cursor);
    if (!is_first) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Unknown cursor", NULL);
    }
    return is_first;
}

void mcp_tools_list(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!mcp_is_first_page(peer, request)) {
        return;
    }
    json_t *tools = peer->tools.list(peer->tools.ctx);
    json_t *result = tools ? json_pack("{s:o}", "tools", tools) : NULL;
    peer_respond(peer, request, result, MCP_KEEP_LONG);
}

bool mcp_may_hold(struct rpc_peer *peer, struct rpc_request *request)
{
    if (peer->call_count < LIMIT_CALLS_IN_FLIGHT) {
        return true;
    }
    peer_refuse(peer, request, RPC_INTERNAL_ERROR,
                "Too many calls in flight; wait until one has finished", NULL);
    return false;
}

/* "Unknown tool: bash. run_python runs it. Tools: run_python, write_file" */
static void refuse_unknown(struct rpc_call *call, const char *name)
{
    char shown[120];
    size_t index = 0;
    const char *instead = call->peer->tools.instead ? call->peer->tools.instead(name) : NULL;
    const json_t *tool = NULL;
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    json_auto_t *tools = call->peer->tools.list(call->peer->tools.ctx);
    buf_appendf(&text, "Unknown tool: %s%s%s", word_show(name, strlen(name), shown, sizeof shown),
                instead ? ". " : "", instead ? instead : "");
    json_array_foreach (tools, index, tool) {
        buf_appendf(&text, "%s%s",
                    index     ? ", "
                    : instead ? " Tools: "
                              : ". Tools: ",
                    json_string_value(json_object_get(tool, "name")));
    }
    rpc_call_fail(call, RPC_INVALID_PARAMS, buf_error(&text) ? "Unknown tool" : buf_text(&text));
}

void mcp_tools_call(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *name = json_object_get(request->params, "name");
    json_t *sent = json_object_get(request->params, "arguments");
    if (!json_is_string(name)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: name must be a string",
                    NULL);
        return;
    }
    if (sent && !json_is_object(sent) && !json_is_null(sent)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS,
                    "Invalid params: arguments must be an object", NULL);
        return;
    }
    if (!mcp_may_hold(peer, request)) {
        return;
    }
    json_auto_t *arguments = json_is_object(sent) ? json_incref(sent) : json_object();
    struct rpc_call *call = arguments ? call_new(peer, request) : NULL;
    if (!call) {
        peer_respond(peer, request, NULL, MCP_KEEP_UNSAID);
        return;
    }
    const char *text = rpc_text_plain(name);
    if (!text || !peer->tools.start(peer->tools.ctx, call, text, arguments)) {
        refuse_unknown(call, json_string_value(name));
    }
}

static bool have_resources(struct rpc_peer *peer, struct rpc_request *request)
{
    if (peer->tools.resources || request->context.has_ui) {
        return true;
    }
    peer_refuse(peer, request, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
    return false;
}

/* The request as a call; NULL: it was refused. */
static struct rpc_call *hold(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!mcp_may_hold(peer, request)) {
        return NULL;
    }
    struct rpc_call *call = call_new(peer, request);
    if (!call) {
        peer_respond(peer, request, NULL, MCP_KEEP_NOT);
    }
    return call;
}

void mcp_resources_list(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *cursor = json_object_get(request->params, "cursor");
    if (!have_resources(peer, request)) {
        return;
    }
    if (cursor && !json_is_null(cursor) && !rpc_text_plain(cursor)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Unknown cursor", NULL);
        return;
    }
    if (!peer->tools.resources) {
        json_t *view = peer->tools.page ? peer->tools.page(peer->tools.ctx, NULL) : NULL;
        peer_respond(peer, request, json_pack("{s:[o*]}", "resources", view), MCP_KEEP_LONG);
        return;
    }
    struct rpc_call *call = hold(peer, request);
    if (call) {
        peer->tools.resources->list(peer->tools.ctx, call, json_string_value(cursor));
    }
}

void mcp_resources_templates(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!have_resources(peer, request) || !mcp_is_first_page(peer, request)) {
        return;
    }
    const struct rpc_resources *resources = peer->tools.resources;
    json_t *templates = resources ? resources->templates(peer->tools.ctx) : json_array();
    peer_respond(peer, request,
                 templates ? json_pack("{s:o}", "resourceTemplates", templates) : NULL,
                 MCP_KEEP_LONG);
}

void mcp_resources_read(struct rpc_peer *peer, struct rpc_request *request)
{
    const json_t *uri = json_object_get(request->params, "uri");
    const char *name = rpc_text_plain(uri);
    json_t *view = name && peer->tools.page ? peer->tools.page(peer->tools.ctx, name) : NULL;
    if (view) {
        peer_respond(peer, request, json_pack("{s:[o]}", "contents", view), MCP_KEEP_LONG);
        return;
    }
    if (!have_resources(peer, request)) {
        return;
    }
    if (!name) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "Invalid params: uri must be a string",
                    NULL);
        return;
    }
    struct rpc_call *call = hold(peer, request);
    if (call && peer->tools.resources) {
        peer->tools.resources->read(peer->tools.ctx, call, name);
    } else if (call) {
        rpc_call_not_found(call, name);
    }
}

/* The extension io.modelcontextprotocol/tasks of 2026-07-28: a call may get a task instead of its
 * result, and the client asks for the task until it has that.
 * Source: ext-tasks specification/2026-07-28/tasks.md. notifications/tasks, which is optional, is
 * left out. */

enum { POLL_MS = 1000 }; /* what a client is asked to leave between two requests for a task */

bool mcp_tasks_declared(const json_t *capabilities)
{
    return json_is_object(
        json_object_get(json_object_get(capabilities, "extensions"), MCP_EXTENSION_TASKS));
}

bool mcp_tasks_missing(struct rpc_peer *peer, struct rpc_request *request)
{
    if (request->context.has_tasks) {
        return false;
    }
    json_auto_t *data =
        json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", MCP_EXTENSION_TASKS);
    peer_refuse(peer, request, RPC_MISSING_CAPABILITY,
                "The request does not declare the extension " MCP_EXTENSION_TASKS, data);
    return true;
}

/* The task that the request is about, borrowed; NULL: the request was refused. */
static const char *find(struct rpc_peer *peer, struct rpc_request *request)
{
    if (!peer->tools.tasks) {
        peer_refuse(peer, request, RPC_METHOD_NOT_FOUND, "Method not found", NULL);
        return NULL;
    }
    if (mcp_tasks_missing(peer, request)) {
        return NULL;
    }
    const char *id = rpc_text_plain(json_object_get(request->params, "taskId"));
    if (!id || !peer->tools.tasks->exists(peer->tools.ctx, id)) {
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "There is no task with this taskId", NULL);
        return NULL;
    }
    return id;
}

/* The same as a call: NULL: the request was refused. */
static struct rpc_call *find_call(struct rpc_peer *peer, struct rpc_request *request,
                                  const char **ret_id)
{
    *ret_id = find(peer, request);
    struct rpc_call *call = *ret_id ? call_new(peer, request) : NULL;
    if (call) {
        call->gets_task = true;
    } else if (*ret_id) {
        peer_respond(peer, request, NULL, MCP_KEEP_UNSAID);
    }
    return call;
}

void mcp_tasks_get(struct rpc_peer *peer, struct rpc_request *request)
{
    const char *id = NULL;
    struct rpc_call *call = find_call(peer, request, &id);
    if (call) {
        peer->tools.tasks->get(peer->tools.ctx, call, id);
    }
}

void mcp_tasks_cancel(struct rpc_peer *peer, struct rpc_request *request)
{
    const char *id = find(peer, request);
    if (id) {
        peer->tools.tasks->cancel(peer->tools.ctx, id);
        peer_respond(peer, request, json_object(), MCP_KEEP_UNSAID);
    }
}

void mcp_tasks_update(struct rpc_peer *peer, struct rpc_request *request)
{
    const char *id = NULL;
    struct rpc_call *call = find_call(peer, request, &id);
    if (call) { /* responses to unknown keys are ignored */
        peer->tools.tasks->update(peer->tools.ctx, call, id);
        call_respond(call, json_object(), MCP_KEEP_UNSAID);
    }
}

/* --- tasks as tools see them --- */

bool rpc_call_wants_task(const struct rpc_call *call)
{
    return !call->cancelled && call->peer && call->peer->tools.tasks &&
           call->request.context.has_tasks;
}

static json_t *time_text(uint64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts = {};
    char day_and_time[24] = "";
    char text[32];
    if (gmtime_r(&seconds, &parts)) {
        (void)strftime(day_and_time, sizeof day_and_time, "%Y-%m-%dT%H:%M:%S", &parts);
    }
    (void)snprintf(text, sizeof text, "%s.%03uZ", day_and_time, (unsigned)(ms % 1000));
    return json_string(text);
}

static json_t *task_json(const struct rpc_task *task)
{
    static const char *const names[RPC_TASK_STATUS_COUNT] = {
        [RPC_TASK_WORKING] = "working",
        [RPC_TASK_COMPLETED] = "completed",
        [RPC_TASK_CANCELLED] = "cancelled",
    };
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:i}", "taskId", task->id, "status",
                     names[task->status], "statusMessage",
                     rpc_text(task->message, strlen(task->message)), "createdAt",
                     time_text(task->created_ms), "lastUpdatedAt", time_text(task->updated_ms),
                     "ttlMs", (json_int_t)task->ttl_ms, "pollIntervalMs", POLL_MS);
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
