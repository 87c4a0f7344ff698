/* One of the workspace's files for a host that reads it by itself: as text, or else as base64. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "rpc/text.h"
#include "tools/content.h"
#include "tools/magic.h"
#include "tools/resource_uri.h"
#include "tools/tool.h"
#include "tools/utf16.h"

struct fetch_job {
    struct tools *tools;
    struct rpc_call *call;
    struct workspace_waiter waiter;
    char path[LIMIT_PATH_BYTES];
    char *uri;
};

static void fetch_free(struct fetch_job *job)
{
    free(job->uri);
    free(job);
}

/* Whether text still has its bound when it is a JSON string. */
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
static json_t *contents_of(const char *uri, const char *bytes, size_t size)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    enum magic_kind kind = magic_of(bytes, size < MAGIC_BYTES ? size : MAGIC_BYTES).kind;
    if (kind == MAGIC_UTF16 && utf16_decode(bytes, size, &out) < 0) {
        return NULL;
    }
    const char *text = kind == MAGIC_UTF16 ? buf_bytes(&out) : bytes;
    size_t text_size = kind == MAGIC_UTF16 ? buf_size(&out) : size;
    if ((kind == MAGIC_TEXT || kind == MAGIC_UTF16) && text_fits(text, text_size)) {
        return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", "text/plain", "text",
                         rpc_text(text, text_size));
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

static void fetch_regular(struct fetch_job *job, int fd, uint64_t size)
{
    char text[128];
    char human[16];
    char *space = NULL;
    OWNED(buf_done) struct buf bytes = BUF_EMPTY;
    if (size > LIMIT_RESOURCE_BYTES) {
        (void)snprintf(text, sizeof text,
                       "The file has %s, too much for one answer; read_file reads parts of it",
                       content_size(size, human));
        rpc_call_fail(job->call, RPC_INTERNAL_ERROR, text);
        return;
    }
    ssize_t have = buf_reserve(&bytes, (size_t)size, &space);
    have = have < 0 ? have : fd_pread_all(fd, space, (size_t)size, 0);
    json_t *contents = have < 0 ? NULL : contents_of(job->uri, space, (size_t)have);
    rpc_call_answer(job->call, contents ? json_pack("{s:[o]}", "contents", contents) : NULL);
}

static void fetch_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct fetch_job *job = arg;
    defer_close int owned = fd;
    if (error == ECONNRESET) {
        rpc_call_fail(job->call, RPC_INTERNAL_ERROR, "The sandbox ended meanwhile; try again");
    } else if (error || !S_ISREG(file->mode)) {
        rpc_call_not_found(job->call, job->uri);
    } else {
        fetch_regular(job, owned, file->size_bytes);
    }
    fetch_free(job);
}

static void fetch_begin(void *arg, struct box *box, const struct fail *)
{
    struct fetch_job *job = arg;
    if (!box || box_file_open(box, job->path, fetch_opened, job) < 0) {
        rpc_call_fail(job->call, RPC_INTERNAL_ERROR, "The sandbox is not available");
        fetch_free(job);
    }
}

static void resource_read(void *ctx, struct rpc_call *call, const char *uri)
{
    struct tools *tools = ctx;
    struct fetch_job *job = calloc(1, sizeof *job);
    char *copy = job ? strdup(uri) : NULL;
    if (!copy) {
        free(job);
        rpc_call_answer(call, NULL);
        return;
    }
    job->tools = tools;
    job->call = call;
    job->uri = copy;
    if (!resource_path(uri, job->path)) {
        rpc_call_not_found(call, uri);
        fetch_free(job);
        return;
    }
    workspace_wait(tools->workspace, &job->waiter, fetch_begin, job);
}

static json_t *resource_templates(void *)
{
    return json_pack(
        "[{s:s, s:s, s:s, s:s}]", "uriTemplate", RESOURCE_PREFIX "{+path}", "name", "workspace",
        "title", "File of the sandbox", "description",
        "A file of the workspace that run_python, write_file and read_file share; path "
        "is relative to it, percent-encoded.");
}

const struct rpc_resources workspace_resources = {
    .list = resource_list,
    .templates = resource_templates,
    .read = resource_read,
};
