/* The extension io.modelcontextprotocol/tasks of 2026-07-28: a call may get a task instead of its
 * result, and the client asks for the task until it has that.
 * Source: ext-tasks specification/2026-07-28/tasks.md. notifications/tasks, which is optional, is
 * left out. */
#include <string.h>

#include "base/own.h"
#include "rpc/call_table.h"
#include "rpc/mcp.h"
#include "rpc/text.h"

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
        peer_refuse(peer, request, RPC_INVALID_PARAMS, "taskId must name a task", NULL);
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
