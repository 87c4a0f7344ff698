#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct loop;
struct rpc_call;
struct rpc_conn;

/* Files that a client may list and read by itself. ctx is that of the tools. list and read end
 * the call with rpc_call_respond(), rpc_call_not_found() or rpc_call_fail(), maybe before they
 * return. */
struct rpc_resources {
    /* cursor: the nextCursor of an earlier page, or NULL; borrowed until this returns. */
    void (*list)(void *ctx, struct rpc_call *call, const char *cursor);
    /* New: the array of templates, or NULL when out of memory. */
    json_t *(*templates)(void *ctx);
    void (*read)(void *ctx, struct rpc_call *call, const char *uri);
};

/* Calls that go on after their requests got a response (rpc_call_task()). ctx is that of the
 * tools. */
struct rpc_tasks {
    bool (*exists)(void *ctx, const char *id);
    /* All for one that exists. get ends the call before it returns: with rpc_call_task(), or with
     * rpc_call_set_task() and rpc_call_result(). */
    void (*get)(void *ctx, struct rpc_call *call, const char *id);
    /* The call may have responses of the user's, for rpc_call_elicit(). It is not ended. */
    void (*update)(void *ctx, struct rpc_call *call, const char *id);
    void (*cancel)(void *ctx, const char *id);
};

/* The MIME type of a view, by which clients declare that they show views (MCP Apps). */
#define RPC_VIEW_TYPE "text/html;profile=mcp-app"

/* What rpc needs from the module that has the tools. ctx is passed back to each function. */
struct rpc_tools {
    void *ctx;

    /* Whether results have structuredContent, for clients whose version has it. */
    bool structured;

    /* New: the JSON array that tools/list sends, or NULL when out of memory. */
    json_t *(*list)(void *ctx);

    /* New: a JSON string for the first response to a client, or NULL for none. */
    json_t *(*instructions)(void *ctx);

    /* Starts a tool call. Returns false, having done nothing, when there is no such tool. Otherwise
     * the call must be ended exactly once with rpc_call_result() or rpc_call_fail(), maybe before
     * this returns. arguments: an object, borrowed until this returns. */
    bool (*start)(void *ctx, struct rpc_call *call, const char *name, json_t *arguments);

    /* May be NULL. Appends a sentence that says how to do what a tool of other servers does, if it
     * is known. */
    void (*instead)(void *ctx, const char *name, struct buf *out);

    /* The client cancelled the call, or the connection ends. The tool stops its work and must still
     * end the call, maybe before this returns; nothing is sent then. */
    void (*cancel)(void *ctx, struct rpc_call *call);

    /* May be NULL. New: the member of resources/read's contents for a view that tools name, or for
     * uri NULL that of resources/list; NULL: there is no such view. Reads nothing that a call could
     * change. */
    json_t *(*page)(void *ctx, const char *uri);

    /* Borrowed as long as the connection exists; NULL: there are none. */
    const struct rpc_resources *resources;
    const struct rpc_tasks *tasks;

    /* May be NULL. Called once, after the response to the first initialize or discover was written:
     * a chance to warm up. */
    void (*greeted)(void *ctx);
};

/* All borrowed as long as the connection exists. */
struct rpc_config {
    const char *server_name;
    const char *server_title;
    const char *server_version;
};

/* Speaks MCP on two descriptors. They are borrowed, become non-blocking, and must have different
 * numbers. SIGPIPE must be ignored. Any kind of file is accepted: those that epoll(7) refuses
 * (regular files, /dev/null) count as always ready. config and tools are copied.
 * on_closed: called once, from the loop, when stdin has ended or stdout broke. By then every line
 * read has been dispatched and the calls in flight have been cancelled; it may free the connection.
 * 0 or -errno. */
int rpc_conn_new(struct loop *loop, int fd_in, int fd_out, const struct rpc_config *config,
                 const struct rpc_tools *tools, void (*on_closed)(void *arg), void *arg,
                 struct rpc_conn **ret_conn);

/* Must not be called from a function of struct rpc_tools. Does not flush. Cancels the calls in
 * flight; those that do not end at once stay valid until they end, and then send nothing. */
void rpc_conn_free(struct rpc_conn *conn);

/* Waits until all responses are written, for at most timeout_ms. 0, -ETIMEDOUT, or -EPIPE when
 * stdout is broken. */
int rpc_conn_flush(struct rpc_conn *conn, int timeout_ms);

/* Milliseconds since the client last sent or read anything; 0 while a call is in flight. */
uint64_t rpc_conn_quiet_ms(const struct rpc_conn *conn);
