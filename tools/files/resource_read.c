/* Sends one of the workspace's files to a client that reads it by itself: as text, or else as
 * base64. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/text.h"
#include "tools/box/tool.h"
#include "tools/content/content.h"
#include "tools/content/magic.h"
#include "tools/content/resource_uri.h"
#include "tools/files/decode.h"
#include "tools/order/order.h"

struct fetch_op {
    struct tools *tools;
    struct rpc_call *call;
    struct server_box_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    char *uri;
};

static void fetch_free(struct fetch_op *op)
{
    free(op->uri);
    free(op);
}

/* Whether text is still within its limit as a JSON string. */
static bool text_fits(const char *text, size_t size)
{
    size_t escaped = size;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        escaped += c == '"' || c == '\\' || (c >= '\b' && c <= '\r') ? 1 : c < ' ' ? 5 : 0;
    }
    return escaped <= content_base64_size(LIMIT_RESOURCE_BYTES);
}

/* New: the one item of contents. */
static json_t *contents_of(const char *uri, const char *path, const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    enum magic_kind kind = magic_of(bytes, size < MAGIC_BYTES ? size : MAGIC_BYTES).kind;
    if (kind == MAGIC_UTF16 && utf16_decode(bytes, size, &out) < 0) {
        return NULL;
    }
    const char *text = kind == MAGIC_UTF16 ? buf_bytes(&out) : bytes;
    size_t text_size = kind == MAGIC_UTF16 ? buf_size(&out) : size;
    if ((kind == MAGIC_TEXT || kind == MAGIC_UTF16) && text_fits(text, text_size)) {
        return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", resource_text_type(path),
                         "text", rpc_text(text, text_size));
    }
    buf_clear(&out, 0);
    const char *mime = content_image_type(bytes, size);
    if (content_base64_encode(bytes, size, &out) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType",
                     mime ? mime : "application/octet-stream", "blob",
                     json_stringn(buf_bytes(&out), buf_size(&out)));
}

static void fetch_regular(struct fetch_op *op, int fd, uint64_t size)
{
    char text[128];
    char human[16];
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    if (size > LIMIT_RESOURCE_BYTES) {
        (void)snprintf(text, sizeof text,
                       "The file has %s, too much for one response; read_file reads parts of it",
                       content_size(size, human));
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, text);
        return;
    }
    int r = content_read(fd, 0, (size_t)size, &bytes);
    json_t *contents =
        r < 0 ? NULL : contents_of(op->uri, op->path, buf_bytes(&bytes), buf_size(&bytes));
    rpc_call_respond(op->call, contents ? json_pack("{s:[o]}", "contents", contents) : NULL);
}

static void fetch_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct fetch_op *op = arg;
    defer_close int owned = fd;
    if (error == ECONNRESET) {
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, "The sandbox exited meanwhile; try again");
    } else if (error || !S_ISREG(file->mode)) {
        rpc_call_not_found(op->call, op->uri);
    } else {
        fetch_regular(op, owned, file->size_bytes);
    }
    fetch_free(op);
}

static void fetch_begin(void *arg, struct box *box, const struct fail *)
{
    struct fetch_op *op = arg;
    if (!box || box_file_open(box, op->path, fetch_opened, op) < 0) {
        rpc_call_fail(op->call, RPC_INTERNAL_ERROR, "The sandbox is not available");
        fetch_free(op);
    }
}

static void fetch(struct tools *tools, struct rpc_call *call, const json_t *arguments)
{
    const char *uri = json_string_value(arguments);
    struct fetch_op *op = calloc(1, sizeof *op);
    char *copy = op ? strdup(uri) : NULL;
    if (!copy) {
        free(op);
        rpc_call_respond(call, NULL);
        return;
    }
    op->tools = tools;
    op->call = call;
    op->uri = copy;
    if (!resource_path(uri, op->path)) {
        rpc_call_not_found(call, uri);
        fetch_free(op);
        return;
    }
    server_box_wait(tools->server_box, &op->waiter, fetch_begin, op);
}

static void resource_read(void *ctx, struct rpc_call *call, const char *uri)
{
    struct tools *tools = ctx;
    json_auto_t *arguments = json_string(uri);
    orders_add(tools->orders, call, ORDER_READ, /* tool= */ NULL, arguments, fetch);
}

static json_t *resource_templates(void *)
{
    return json_pack("[{s:s, s:s, s:s, s:s}]", "uriTemplate", RESOURCE_PREFIX "{+path}", "name",
                     "workspace", "title", "File of the sandbox", "description",
                     "A file in the workspace that run_python, write_file and read_file share; "
                     "path is relative to the workspace, percent-encoded.");
}

const struct rpc_resources workspace_resources = {
    .list = resource_list,
    .templates = resource_templates,
    .read = resource_read,
};
